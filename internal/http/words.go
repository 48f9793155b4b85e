package http

import (
	"fmt"
	"time"
)

// age says in two units at most how long d is; a clock that runs behind is "now".
func age(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return "0 s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < day:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%d d %d h", d/day, d%day/time.Hour)
	}
}

// byteText is n bytes in the largest binary unit that it has one of.
func byteText(n int64) string {
	const step = 1024
	if n < step {
		return fmt.Sprintf("%d B", max(n, 0))
	}
	value, units := float64(n)/step, "KMGTPE"
	for value >= step && len(units) > 1 {
		value, units = value/step, units[1:]
	}
	return fmt.Sprintf("%.1f %ciB", value, units[0])
}
