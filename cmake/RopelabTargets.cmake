# One library per folder, one test program per folder of tests. Sources are found by name, so a new file needs no edit here.

set(ROPELAB_WARNINGS -Wall -Wextra -Wpedantic -Werror)

# ropelab_library(name dependency...): every .cc of the current folder except main.cc and *_main.cc.
function(ropelab_library name)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  list(FILTER sources EXCLUDE REGEX "main\\.cc$")
  if(NOT sources)
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE ${CMAKE_SOURCE_DIR})
    target_link_libraries(${name} INTERFACE ${ARGN})
    return()
  endif()
  add_library(${name} STATIC ${sources})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_compile_options(${name} PRIVATE ${ROPELAB_WARNINGS})
  target_link_libraries(${name} PUBLIC ${ARGN})
  ropelab_sanitize(${name})
  ropelab_batches(${name})
endfunction()

# ropelab_batches(name): with ROPELAB_BATCHES the compiler takes several files of a target at once, so that what they all include is
# parsed and instantiated once: about half the time of a clean build. Names in unnamed namespaces must then differ within a folder. Presets
# without it (debug, tsan, engine) show that each file includes what it uses.
function(ropelab_batches name)
  if(ROPELAB_BATCHES)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
  endif()
endfunction()

# ropelab_binary(name source dependency...)
function(ropelab_binary name source)
  add_executable(${name} ${source})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_options(${name} PRIVATE ${ROPELAB_WARNINGS})
  target_link_libraries(${name} PRIVATE ${ARGN})
  ropelab_sanitize(${name})
endfunction()

# ropelab_unit_tests(folder dependency...): every *_test.cc of tests/unit/<folder> as one program, its test cases known to ctest. With
# WHOLE first among the dependencies the program is one test: loading libtorch costs half a second each time. HEADERS
# names a target of ropelab_shared_headers.
function(ropelab_unit_tests folder)
  cmake_parse_arguments(unit "WHOLE" "HEADERS" "" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/unit/${folder}/*.cc)
  if(NOT sources)
    return()
  endif()
  string(REPLACE "/" "_" name "test_${folder}")
  add_executable(${name} ${sources})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  # Test code runs once: what compiles fast is fast enough.
  target_compile_options(${name} PRIVATE ${ROPELAB_WARNINGS} -O1)
  target_link_libraries(${name} PRIVATE ${unit_UNPARSED_ARGUMENTS} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE
    ROPELAB_SOURCE_DIR="${CMAKE_SOURCE_DIR}" ROPELAB_FIXTURES_DEFAULT="${CMAKE_SOURCE_DIR}/../shared/fixtures")
  ropelab_sanitize(${name})
  ropelab_batches(${name})
  if(unit_HEADERS)
    ropelab_use_headers(${name} ${unit_HEADERS})
  endif()
  if(unit_WHOLE)
    add_test(NAME ${folder} COMMAND ${name} --gtest_brief=1)
    set_tests_properties(${folder} PROPERTIES LABELS unit TIMEOUT 300)
  else()
    gtest_discover_tests(${name} TEST_PREFIX "${folder}." PROPERTIES LABELS unit DISCOVERY_TIMEOUT 60)
  endif()
endfunction()

# What waits for the network, the disk or a person gains nothing from -O3, and its templates compile a quarter faster without.
function(ropelab_light name)
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

function(ropelab_sanitize name)
  if(ROPELAB_SANITIZE)
    target_compile_options(${name} PRIVATE -fsanitize=${ROPELAB_SANITIZE} -fno-omit-frame-pointer)
    target_link_options(${name} PUBLIC -fsanitize=${ROPELAB_SANITIZE})
  endif()
endfunction()

# ropelab_precompile(name header...): headers that most files of a target include are parsed once. Only what seldom changes: other
# projects' headers and the generated ones.
function(ropelab_precompile name)
  get_target_property(type ${name} TYPE)
  if(NOT type STREQUAL "INTERFACE_LIBRARY")
    target_precompile_headers(${name} PRIVATE ${ARGN})
  endif()
endfunction()

# ropelab_shared_headers(name header... LINK dependency... [OPTIONS option...]): headers parsed once for several programs, which say
# ropelab_use_headers(target name). They must be compiled with the same definitions and options; so what carries the headers is a program.
function(ropelab_shared_headers name)
  cmake_parse_arguments(shared "" "" "LINK;OPTIONS" ${ARGN})
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc CONTENT "int main() {}\n")
  add_executable(${name} ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc)
  target_link_libraries(${name} PRIVATE ${shared_LINK})
  target_compile_options(${name} PRIVATE ${ROPELAB_WARNINGS} ${shared_OPTIONS})
  target_precompile_headers(${name} PRIVATE ${shared_UNPARSED_ARGUMENTS})
  ropelab_sanitize(${name})
endfunction()

function(ropelab_use_headers target name)
  target_precompile_headers(${target} REUSE_FROM ${name})
endfunction()
