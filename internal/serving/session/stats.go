package session

import "github.com/lmserve/lmserve/internal/serving/storage"

// Stats is the state of a Manager at one moment.
type Stats struct {
	Sessions int // all sessions, including those being created
	Hot      int // sessions whose states are in memory, or are being recovered
	Waiting  int // requests that wait for a session's state or a worker
	// memory of states, of models other than the default, and of text in memory
	MemoryBytes    int64
	MemoryBytesMax int64 // the limit on MemoryBytes: Options.MaxMemoryBytes
	// Disk is how much of the disk the store uses, and what is left; nil if the store is not on a
	// disk.
	Disk      *storage.Usage
	DiskAlarm bool // too little of the disk is left; see DiskAlarm
	Models    []ModelStats
}

// ModelStats is the state of a model at one moment.
type ModelStats struct {
	ID           string
	States       int   // states in memory of sessions on the model
	WeightsBytes int64 // memory of the weights; 0 if they are not in memory
}

// Stats returns the Manager's state now. It costs about one call to the file system.
func (mg *Manager) Stats() Stats {
	memory := mg.engine.budget
	s := Stats{
		Sessions: mg.index.registry.Places(), Hot: memory.Holders(),
		Waiting: mg.engine.waiting.length(), MemoryBytes: memory.Used(),
		MemoryBytesMax: memory.Max(),
		DiskAlarm:      mg.DiskAlarm() != nil,
	}
	if m, ok := mg.engine.store.(storage.Metered); ok {
		usage := m.Usage()
		s.Disk = &usage
	}
	for _, m := range mg.engine.models {
		about := ModelStats{ID: m.id, States: m.memory.Users()}
		if m.current() != nil {
			about.WeightsBytes = m.size()
		}
		s.Models = append(s.Models, about)
	}
	return s
}
