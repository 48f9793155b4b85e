// Package conformance is the black-box suite of kvm2d's contract. It knows a base
// URL and a token and nothing of the code behind them: each rule that can be seen
// from outside is provoked over HTTP and its answer judged.
//
// [Run] makes a handful of instances under a name of its own, and removes them
// again whatever happens. It changes nothing that it did not make, so that it may
// be run against an installation in use. The tests of this package run it against
// the real binary with simulated hosts, and prove it: against servers that break
// one rule each, that rule and no other must turn red.
package conformance
