// Docs reads the project's pages as a careful reader would: it follows each
// link, runs each shell block, parses each configuration, and minds the
// characters. `make docs-test` runs it.
//
// A comment on the line before a block says what to do with it. Parts are
// separated by semicolons:
//
//	<!-- run: sim -->            in a shell with kvm2d and a simulated daemon; what an unmarked shell block gets
//	<!-- run: lab -->            in a shell that reaches two real libvirt hosts, beelink and rack-2.example.net
//	<!-- run: host beelink -->   as root on that host
//	<!-- run: k8s -->            by make test-k8s, which takes the blocks with -extract
//	<!-- not run: REASON -->     by nobody
//	<!-- serves -->              the block starts a daemon and does not end; the next one finds it ready
//	<!-- file: NAME -->          the block is put into the shell's folder as NAME
//	<!-- same as: PATH -->       the block is the content of PATH, from the project's root
//
// All blocks of a page with the same place run in one shell, in the order of
// the page. The shell starts in an empty folder and stops at the first command
// that fails. In a console block lines with "$ " are commands and the rest is
// what they print; times, UUIDs, hex numbers and durations may differ.
package main

//go:generate go run . -root ../.. -write
