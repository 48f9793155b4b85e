package instance

import "strings"

// uuidPart is how much of a UUID goes into volume names.
const uuidPart = 8

// The ends of the names of an incarnation's disks.
const (
	rootSuffix = "root.qcow2"
	seedSuffix = "seed.iso"
)

// volumeNames are the volumes of one incarnation of an instance.
type volumeNames struct {
	// prefix is what all of them start with, rotated console logs included.
	prefix  string
	overlay string
	seed    string
	console string
}

// namePrefix is what the volumes of all incarnations of a name start with. The
// parts are labels and hold no dot, so the prefix of one name never matches
// a volume of another.
func namePrefix(owner, name string) string { return "kvm2." + owner + "." + name + "." }

func namesOf(owner, name, uuid string) volumeNames {
	prefix := namePrefix(owner, name) + strings.ToLower(uuid[:min(uuidPart, len(uuid))]) + "."
	return volumeNames{
		prefix:  prefix,
		overlay: prefix + rootSuffix,
		seed:    prefix + seedSuffix,
		console: prefix + "console.log",
	}
}
