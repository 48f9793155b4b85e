package http

import (
	"strconv"
	"strings"
	"time"
)

// defaultPatience is how long a create waits when its caller does not say.
const defaultPatience = 50 * time.Second

// patience reads wait=N (seconds) of a Prefer header (RFC 7240), at most limit.
// Other preferences and a wait that is no number are ignored, as the RFC says;
// applied tells whether one was honoured.
func patience(header string, limit time.Duration) (wait time.Duration, applied bool) {
	for preference := range strings.SplitSeq(header, ",") {
		token, _, _ := strings.Cut(preference, ";")
		name, value, ok := strings.Cut(token, "=")
		if !ok || !strings.EqualFold(strings.TrimSpace(name), "wait") {
			continue
		}
		value = strings.Trim(strings.TrimSpace(value), `"`)
		seconds, err := strconv.ParseUint(value, 10, 31)
		if err != nil {
			continue
		}
		return min(time.Duration(seconds)*time.Second, limit), true
	}
	return min(defaultPatience, limit), false
}
