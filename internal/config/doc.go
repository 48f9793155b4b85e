// Package config reads the daemon's one YAML file into a Config. It is strict:
// unknown and repeated keys, values of the wrong kind and YAML's traps are
// faults, and all faults of a file are reported at once, each with its key path
// and line. Load decides what the text alone can tell; CheckFiles looks at the
// files it names.
package config
