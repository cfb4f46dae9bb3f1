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
	// Store contains the sessions; nil means a new storage.Memory. The caller closes Store after
	// Drain. If Store is not durable, states always stay in memory, and the Manager refuses
	// sessions that would exceed MaxMemoryBytes.
	Store storage.Store
	// Lease tells whether this server may serve its sessions in a store that other servers share.
	// Store is then a storage.Shared. Lease is nil if no other server uses Store.
	Lease Lease
	// Others are the models that requests may name, besides the default model. A model's weights
	// are in memory while a state needs them, and count toward MaxMemoryBytes.
	Others []*model.Source
	// Report receives errors that concern the operator but no single request, such as repaired
	// damage and failed snapshots. The Manager may call Report at any time, and Report must not
	// call the Manager. Nil drops these errors.
	Report func(error)
	// Observer gets the Manager's events, for metrics and traces. It may be nil.
	Observer Observer
	// Importing receives the progress of imports whose files have arrived. It cannot distinguish
	// concurrent imports. Importing may be nil.
	Importing Progress

	// DiskBudget limits the size of the data folder, in bytes; 0 means no limit. The Manager calls
	// DiskAlarm with the reason when too little disk space is free, and with nil when enough is
	// free again. DiskAlarm must not call the Manager. Both fields have no effect unless Store is a
	// folder.
	DiskBudget int64
	DiskAlarm  func(why error)

	MaxSessions int // default: SessionsDefault
	// MaxMemoryBytes limits the memory of all states and, if Store is not durable, of all text. The
	// default is the machine's memory divided by MemoryShareDefault.
	//
	// The limit excludes stream.WorkerBytes for each worker, and FileBytes for each file that is
	// being packed or parsed. At most Threads files are packed or parsed at the same time.
	MaxMemoryBytes int64
	// ReplayMax limits the computing time to recover a session after a restart. The Manager takes a
	// snapshot when a recovery would take this time. The default is ReplayMaxDefault.
	ReplayMax time.Duration
	// ForkSnapshots is the number of snapshots that a session keeps for forks, besides the last two
	// snapshots; 0 means none. They are spread over the text, so that a fork at an old offset
	// starts quickly. The text between two of these snapshots takes 4 seconds to compute, or
	// ReplayMax if that is less. A session keeps none with HistoryTail, if Store is not durable, or
	// while half of the disk is used.
	ForkSnapshots   int
	MaxSessionBytes int64 // limit on the text of one session; default: SessionTextBytesDefault
	MaxQueue        int   // limit on waiting requests; default: QueueDefault
	// Threads is the number of workers, and also the number of threads that a worker may use; see
	// package scheduler. The default is the number of processors.
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

// apart returns the computing time between two snapshots of a session, until the session has
// ForkSnapshots snapshots.
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

// MemoryMin returns the smallest useful MaxMemoryBytes. It is enough for a session with default
// settings that learns line by line, and for copies of its state during a completion. Each model in
// Options.Others also needs memory for its weights.
func MemoryMin(m *model.Model) (int64, error) {
	set, err := effective(m, nil)
	if err != nil {
		return 0, err
	}
	state := stream.StateBytes(m, set)
	return max((1+frozenMax)*state, state+stream.LinesBytes+stream.HeldBytes(m, set)), nil
}
