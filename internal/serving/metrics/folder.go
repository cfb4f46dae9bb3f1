package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lmserve/lmserve/internal/serving/session"
)

// Source returns the current state of sessions; a *session.Manager does.
type Source interface{ Stats() session.Stats }

var _ Source = (*session.Manager)(nil)

// folder reports how many sessions there are and what they use, at the moment of the request, and
// the damage that was found.
type folder struct {
	source atomic.Pointer[Source]

	sessions, queue, memory, memoryMax *prometheus.Desc
	disk, diskLeft, diskSize           *prometheus.Desc
	diskAlarm                          *prometheus.Desc
	modelStates, modelWeights          *prometheus.Desc

	scrubFindings prometheus.Counter
}

func newFolder(mk maker) folder {
	gauge := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
	}
	return folder{
		sessions: gauge("sessions", "Sessions: hot ones have their states in memory.", "state"),
		queue:    gauge("queue_length", "Requests that wait for a session's state or a worker."),
		memory: gauge("memory_bytes",
			"Memory of the states of sessions, of their text where it is kept in memory, and of the "+
				"weights of all models but the default."),
		memoryMax: gauge("memory_limit_bytes", "The most that this memory may be."),
		disk: gauge("disk_bytes",
			"What the data folder takes of the disk; free pages are used before it grows.", "kind"),
		diskLeft: gauge("disk_left_bytes",
			"What is left of the file system of the data folder."),
		diskSize:    gauge("disk_size_bytes", "All of the file system of the data folder."),
		diskAlarm:   gauge("disk_alarm", "1 while too little of the disk is left for new text."),
		modelStates: gauge("model_states", "States in memory of sessions of a model.", "model"),
		modelWeights: gauge("model_weights_bytes",
			"Memory of the weights of a model; 0 while they are not in memory.", "model"),
		scrubFindings: mk.counter("scrub_findings_total",
			"Damage that was found by reading through the data folder."),
	}
}

// Follow sets the sessions that the metrics describe.
func (f *folder) Follow(source Source) { f.source.Store(&source) }

// ScrubFinding counts damage to the data folder.
func (f *folder) ScrubFinding() { f.scrubFindings.Inc() }

// Describe implements prometheus.Collector.
func (f *folder) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		f.sessions, f.queue, f.memory, f.memoryMax, f.disk, f.diskLeft, f.diskSize, f.diskAlarm,
		f.modelStates, f.modelWeights,
	} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (f *folder) Collect(to chan<- prometheus.Metric) {
	source := f.source.Load()
	if source == nil {
		return
	}
	tell := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	s := (*source).Stats()
	hot := min(s.Hot, s.Sessions) // both are counted while they change
	tell(f.sessions, float64(hot), "hot")
	tell(f.sessions, float64(s.Sessions-hot), "cold")
	tell(f.queue, float64(s.Waiting))
	tell(f.memory, float64(s.MemoryBytes))
	tell(f.memoryMax, float64(s.MemoryBytesMax))
	tell(f.diskAlarm, truth(s.DiskAlarm))
	for _, m := range s.Models {
		tell(f.modelStates, float64(m.States), m.ID)
		tell(f.modelWeights, float64(m.WeightsBytes), m.ID)
	}
	if u := s.Disk; u != nil {
		tell(f.disk, float64(u.Sessions), "sessions")
		tell(f.disk, float64(u.Temporary), "temporary")
		tell(f.diskLeft, float64(u.Left))
		tell(f.diskSize, float64(u.All))
	}
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
