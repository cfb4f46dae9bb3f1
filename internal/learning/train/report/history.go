package report

import (
	"slices"
	"time"
)

// ofRun returns the lines since the last start of the given first phase of a run. A metrics file
// may have lines of earlier runs before them.
func ofRun(lines []Metric, first string) []Metric {
	for i := len(lines) - 1; i >= 0; i-- {
		if lines[i].Event == eventStart && lines[i].Phase == first {
			return lines[i:]
		}
	}
	return lines
}

// current returns the lines that count, of a run with the given phases. A sitting that begins or
// goes on after some step of a phase supersedes what was written before of that phase's later steps
// and of later phases.
func current(lines []Metric, phases []string) []Metric {
	var now []Metric
	for _, line := range lines {
		order := slices.Index(phases, line.Phase)
		if order < 0 {
			continue
		}
		if line.Event == eventStart || line.Event == eventResume {
			now = slices.DeleteFunc(now, func(old Metric) bool {
				was := slices.Index(phases, old.Phase)
				return was > order || was == order && (old.Step > line.Step || line.Event == eventStart)
			})
		}
		now = append(now, line)
	}
	return now
}

// elapsed returns the time that each phase has taken, including steps that were superseded: the
// time between neighbouring lines of a sitting.
func elapsed(lines []Metric) map[string]time.Duration {
	spent := map[string]time.Duration{}
	for i := 1; i < len(lines); i++ {
		if lines[i].Event != eventStart && lines[i].Event != eventResume {
			spent[lines[i].Phase] += lines[i].Time.Sub(lines[i-1].Time)
		}
	}
	return spent
}
