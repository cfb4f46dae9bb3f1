package report

import (
	"fmt"
	"time"
)

// roundly is a time as a person would say it.
func roundly(d time.Duration) string {
	switch {
	case d < time.Second:
		return "1 s"
	case d < 100*time.Second:
		return fmt.Sprintf("%d s", int(d.Seconds()+.5))
	case d < 100*time.Minute:
		return fmt.Sprintf("%d min", int(d.Minutes()+.5))
	}
	minutes := int(d.Minutes() + .5)
	return fmt.Sprintf("%d h %d min", minutes/60, minutes%60)
}
