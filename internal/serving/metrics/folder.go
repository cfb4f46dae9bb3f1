package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lmserve/lmserve/internal/serving/session"
)

// Source returns the current state of sessions. A *session.Manager is a Source.
type Source interface{ Stats() session.Stats }

var _ Source = (*session.Manager)(nil)

// folder exports the number of sessions and their current use of memory and disk. It also counts
// damage found in the data folder.
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
		sessions: gauge("sessions",
			"Number of sessions; the states of hot sessions are in memory, those of cold "+
				"sessions only in the store.", "state"),
		queue: gauge("queue_length",
			"Number of requests that wait for a session's state or a worker."),
		memory: gauge("memory_bytes",
			"Memory in bytes of session states, of text kept in memory, and of the "+
				"weights of all models but the default."),
		memoryMax: gauge("memory_limit_bytes",
			"Limit of lmserve_memory_bytes in bytes, set by --memory-budget."),
		disk: gauge("disk_bytes",
			"Size of the data folder in bytes: temporary for snapshots being written, "+
				"sessions for all else.",
			"kind"),
		diskLeft: gauge("disk_left_bytes",
			"Free space of the data folder's file system, in bytes."),
		diskSize: gauge("disk_size_bytes",
			"Size of the data folder's file system, in bytes."),
		diskAlarm: gauge("disk_alarm",
			"1 while too little disk space is free for new text, otherwise 0."),
		modelStates: gauge("model_states",
			"Number of session states of the model in memory.", "model"),
		modelWeights: gauge("model_weights_bytes",
			"Memory of the model's weights in bytes; 0 while the weights are not loaded.", "model"),
		scrubFindings: mk.counter("scrub_findings_total",
			"Number of damaged places that the scrubber has found in the data folder."),
	}
}

// Follow sets the Source that Collect reads.
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
	// Hot and Sessions are not read at the same moment, so Hot may be larger
	hot := min(s.Hot, s.Sessions)
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
