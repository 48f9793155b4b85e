package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
)

// spec is the body of a create.
type spec map[string]any

// with returns a copy of s with other entries on top.
func (s spec) with(over spec) spec {
	out := maps.Clone(s)
	maps.Copy(out, over)
	return out
}

func (s spec) json() []byte {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // a spec is made of strings, numbers and maps of them
	}
	return data
}

// machine is an instance as it is told.
type machine struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	UID         *string           `json:"uid"`
	Host        string            `json:"host"`
	Placement   string            `json:"placement"`
	Image       string            `json:"image"`
	Size        string            `json:"size"`
	State       string            `json:"state"`
	StateReason string            `json:"stateReason"`
	IP          *string           `json:"ip"`
	Addresses   []address         `json:"addresses"`
	CreatedAt   string            `json:"createdAt"`
	Tags        map[string]string `json:"tags"`
}

func (m machine) uid() string {
	if m.UID == nil {
		return ""
	}
	return *m.UID
}

type address struct {
	Address string `json:"address"`
	Family  string `json:"family"`
	Source  string `json:"source"`
	MAC     string `json:"mac"`
}

type list struct {
	Items       []machine     `json:"items"`
	Unreachable []unreachable `json:"unreachable"`
}

type unreachable struct {
	Host   string `json:"host"`
	Reason string `json:"reason"`
}

// named returns the entries of that name.
func (l list) named(name string) []machine {
	var found []machine
	for _, m := range l.Items {
		if m.Name == name {
			found = append(found, m)
		}
	}
	return found
}

type problem struct {
	Type              string  `json:"type"`
	Title             string  `json:"title"`
	Status            int     `json:"status"`
	Detail            string  `json:"detail"`
	Instance          string  `json:"instance"`
	Kind              string  `json:"kind"`
	Reason            string  `json:"reason"`
	Host              string  `json:"host"`
	RetryAfterSeconds *int    `json:"retryAfterSeconds"`
	Errors            []field `json:"errors"`
}

// field is one fault of a request.
type field struct {
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
}

type placement struct {
	Name  string `json:"name"`
	Host  string `json:"host"`
	Image string `json:"image"`
	Size  string `json:"size"`
}

type health struct {
	Status string       `json:"status"`
	Hosts  []hostHealth `json:"hosts"`
}

type hostHealth struct {
	Host      string         `json:"host"`
	Ready     *bool          `json:"ready"`
	Reason    string         `json:"reason"`
	Message   *string        `json:"message"`
	LatencyMS *int64         `json:"latencyMs"`
	Details   map[string]any `json:"details"`
}

func (h hostHealth) ready() bool { return h.Ready != nil && *h.Ready }

type image struct {
	Image      string `json:"image"`
	Host       string `json:"host"`
	Identity   string `json:"identity"`
	State      string `json:"state"`
	SizeBytes  *int64 `json:"sizeBytes"`
	Overlays   *int   `json:"overlays"`
	DoneBytes  *int64 `json:"doneBytes"`
	TotalBytes *int64 `json:"totalBytes"`
	Reason     string `json:"reason"`
}

// decode reads the JSON of an answer that must have been a success.
func decode[T any](a answer) (T, error) {
	var v T
	if a.status < 200 || a.status > 299 {
		return v, fmt.Errorf("%s %s: %s", a.call.method, a.call.path, a)
	}
	if err := json.Unmarshal(a.body, &v); err != nil {
		return v, fmt.Errorf("%s %s: %w: %s", a.call.method, a.call.path, err, a)
	}
	return v, nil
}
