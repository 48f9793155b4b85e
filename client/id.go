package client

import "regexp"

var idRE = regexp.MustCompile(`^hosts/[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/domains/[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// ValidID reports whether id has the shape of an instance's id,
// hosts/<host>/domains/<name>. Whoever makes paths of ids with the generated
// client checks them first: an id of ".." would call another path.
func ValidID(id string) bool { return idRE.MatchString(id) }
