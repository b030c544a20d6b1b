// How inner loops are compiled for several instruction sets, of which the widest that the processor has is
// taken, and vectors of their widths.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define ROPELAB_HAS_CLONES 1
#define ROPELAB_VECTOR_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define ROPELAB_HAS_CLONES 0
#define ROPELAB_VECTOR_CLONES
#endif
// Before a loop whose rounds do not depend on each other, which the compiler cannot see.
#if defined(__clang__)
#define ROPELAB_INDEPENDENT_ROUNDS _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define ROPELAB_INDEPENDENT_ROUNDS _Pragma("GCC ivdep")
#else
#define ROPELAB_INDEPENDENT_ROUNDS
#endif
#define ROPELAB_INLINE inline __attribute__((always_inline))

namespace ropelab::engine {

// Declared one by one: as an alias that depends on a template's parameter GCC 12 takes them for scalars.
typedef float Vector4 __attribute__((vector_size(16)));
typedef float Vector8 __attribute__((vector_size(32)));
typedef float Vector16 __attribute__((vector_size(64)));
typedef float AnyVector4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef float AnyVector8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float AnyVector16 __attribute__((vector_size(64), aligned(4), may_alias));

// Reads and writes at any alignment, by reference since vectors wider than the caller's registers cannot be
// passed by value. Not memcpy: GCC joins several to one copy through memory.
ROPELAB_INLINE void Load(const float* from, float& to) {
  to = *from;
}
ROPELAB_INLINE void Load(const float* from, Vector4& to) {
  to = *reinterpret_cast<const AnyVector4*>(from);
}
ROPELAB_INLINE void Load(const float* from, Vector8& to) {
  to = *reinterpret_cast<const AnyVector8*>(from);
}
ROPELAB_INLINE void Load(const float* from, Vector16& to) {
  to = *reinterpret_cast<const AnyVector16*>(from);
}
ROPELAB_INLINE void Store(const float& from, float* to) {
  *to = from;
}
ROPELAB_INLINE void Store(const Vector4& from, float* to) {
  *reinterpret_cast<AnyVector4*>(to) = from;
}
ROPELAB_INLINE void Store(const Vector8& from, float* to) {
  *reinterpret_cast<AnyVector8*>(to) = from;
}
ROPELAB_INLINE void Store(const Vector16& from, float* to) {
  *reinterpret_cast<AnyVector16*>(to) = from;
}

}  // namespace ropelab::engine
