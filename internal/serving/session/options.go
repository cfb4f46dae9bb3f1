package session

import (
	"cmp"
	"fmt"
	"runtime"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

// Options configure a Manager. A field that is zero has its default value.
type Options struct {
	// Store contains the sessions. The caller closes it after Drain. Nil means a new
	// storage.Memory. If the store is not durable, states are never dropped from memory. Sessions
	// that would exceed MaxMemoryBytes are then refused.
	Store storage.Store
	// Lease allows the Manager to share the store with other servers; the store is then a
	// storage.Shared. It is nil if no other server uses the store.
	Lease Lease
	// Others are the models besides the default that requests may name. Their weights are in memory
	// while states need them, and count toward MaxMemoryBytes.
	Others []*model.Source
	// Report gets errors that concern the operator but no single request, such as repaired damage
	// and failed snapshots or deletions. It may be called at any time, and must not call the
	// Manager. If it is nil, these errors are dropped.
	Report func(error)
	// Observer gets the Manager's events, for metrics and traces. It may be nil.
	Observer Observer
	// Importing gets the progress of imports. An import reports progress once its file has arrived.
	// Concurrent imports are not distinguished. Importing may be nil.
	Importing Progress

	// DiskBudget limits the size of the data folder, in bytes; 0 means no limit. DiskAlarm is
	// called with the reason when too little space is left, and with nil when enough is free again
	// (see package disk). It must not call the Manager. Both fields are ignored unless the store is
	// a folder.
	DiskBudget int64
	DiskAlarm  func(why error)

	MaxSessions int // default: SessionsDefault
	// MaxMemoryBytes limits the memory of all states, also during imports. If the store is not
	// durable, it includes the text. The default is the machine's memory divided by
	// MemoryShareDefault.
	//
	// Not included are stream.WorkerBytes per worker, and FileBytes per file that is being packed
	// or parsed. At most Threads files are packed or parsed at the same time.
	MaxMemoryBytes int64
	// ReplayMax limits the computing time to recover a session after a restart. When a recovery
	// would take this time, a snapshot is taken. The default is ReplayMaxDefault.
	ReplayMax time.Duration
	// ForkSnapshots is the number of snapshots for forks that a session keeps, besides the last
	// two; 0 means none. They are spread over the text, so that a fork at an old offset starts
	// quickly. The text between two of them takes 4 seconds to compute, or ReplayMax if that is
	// less. None are kept with HistoryTail, in a store that is not durable, or while half of the
	// disk is used.
	ForkSnapshots   int
	MaxSessionBytes int64 // limit on the text of one session; default: SessionTextBytesDefault
	MaxQueue        int   // limit on waiting requests; default: QueueDefault
	// Threads is the number of workers. It is also the number of threads that one worker may use;
	// see package scheduler. The default is the number of processors.
	Threads int
}

// Validate returns a *FieldError for the first field that is out of range.
func (o Options) Validate() error {
	for _, f := range []struct {
		name       string
		value, max int64
	}{
		{"max_sessions", int64(o.MaxSessions), SessionsMax},
		{"max_memory_bytes", o.MaxMemoryBytes, 1 << 50},
		{"disk_budget", o.DiskBudget, 1 << 50},
		{"max_session_bytes", o.MaxSessionBytes, 1 << 50},
		{"max_queue", int64(o.MaxQueue), QueueMax},
		{"fork_snapshots", int64(o.ForkSnapshots), ForkSnapshotsMax},
		{"replay_max", int64(o.ReplayMax), int64(24 * time.Hour)},
		{"threads", int64(o.Threads), ThreadsMax},
	} {
		if f.value < 0 || f.value > f.max {
			return &FieldError{f.name, fmt.Sprint(f.value), fmt.Sprintf("0 (the default) to %d",
				f.max)}
		}
	}
	return nil
}

func (o Options) withDefaults() Options {
	o.MaxSessions = cmp.Or(o.MaxSessions, SessionsDefault)
	if o.Store == nil {
		o.Store = storage.NewMemory()
	}
	if o.Report == nil {
		o.Report = func(error) {}
	}
	if o.Observer == nil {
		o.Observer = unobserved{}
	}
	o.MaxMemoryBytes = cmp.Or(o.MaxMemoryBytes, DefaultMemoryBytes())
	o.ReplayMax = cmp.Or(o.ReplayMax, ReplayMaxDefault)
	o.MaxSessionBytes = cmp.Or(o.MaxSessionBytes, SessionTextBytesDefault)
	o.MaxQueue = cmp.Or(o.MaxQueue, QueueDefault)
	o.Threads = cmp.Or(o.Threads, runtime.GOMAXPROCS(0))
	return o
}

// apart returns the computing time between two snapshots of a session that does not have
// ForkSnapshots snapshots yet.
func (o Options) apart() time.Duration {
	if o.ForkSnapshots > 0 {
		return min(o.ReplayMax, forkReplay)
	}
	return o.ReplayMax
}

// DefaultMemoryBytes returns the default value of Options.MaxMemoryBytes on this machine.
func DefaultMemoryBytes() int64 {
	if all := machineMemory(); all > 0 {
		return all / MemoryShareDefault
	}
	return MemoryBytesDefault
}

// MemoryMin returns the smallest useful MaxMemoryBytes. It is enough for one session with default
// settings that learns by lines, and for its copy during a completion. For a model of
// Options.Others, its weights must be added.
func MemoryMin(m *model.Model) (int64, error) {
	set, err := effective(m, nil)
	if err != nil {
		return 0, err
	}
	state := stream.StateBytes(m, set)
	return max((1+frozenMax)*state, state+stream.LinesBytes+stream.HeldBytes(m, set)), nil
}
