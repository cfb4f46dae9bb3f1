package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// How long a backup stays open so that its reader can resume. Until then, text that clients delete
// still takes disk space.
const (
	BackupIdleMax = 2 * time.Minute // time without a reader
	BackupLifeMax = 6 * time.Hour   // total time, even with a reader
)

// backups holds the one backup that a Manager may have at a time.
type backups struct {
	store    storage.Store
	logError func(error)

	mu      sync.Mutex
	closed  bool
	making  bool
	readers int
	current storage.Backup
	idle    *time.Timer // timer that ends a backup without readers; nil while there are readers
	life    *time.Timer // timer that ends the backup in any case
}

// Backup is a backup that is being read. The reader must close it, and may open it again by its ID.
type Backup struct {
	io.ReadSeekCloser
	ID   string
	Size int64 // bytes

	leave func()
}

// Close ends the reading. The backup itself stays available for BackupIdleMax.
func (b *Backup) Close() error {
	defer b.leave()
	return b.ReadSeekCloser.Close()
}

// open returns the backup with the given id. If the id is empty, open makes a new backup and ends
// an old backup that nobody reads.
func (bs *backups) open(ctx context.Context, id string) (*Backup, error) {
	if id != "" {
		bs.mu.Lock()
		defer bs.mu.Unlock()
		switch {
		case bs.closed:
			return nil, ErrDraining
		case bs.current == nil || bs.current.ID() != id:
			return nil, ErrBackupGone
		}
		return bs.readLocked(), nil
	}
	backuper, ok := bs.store.(storage.Backuper)
	if !ok {
		return nil, ErrNoBackup
	}
	if err := bs.begin(); err != nil {
		return nil, err
	}
	made, err := backuper.Backup(ctx)
	bs.mu.Lock()
	defer bs.mu.Unlock()
	bs.making = false
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, storeError("making a backup", err)
	case bs.closed:
		return nil, errors.Join(ErrDraining, made.Close())
	}
	bs.current = made
	bs.life = time.AfterFunc(BackupLifeMax, func() { bs.expire(made, true) })
	return bs.readLocked(), nil
}

// begin ends the current backup, so that a new one can be made. It fails while a backup is made or
// read.
func (bs *backups) begin() error {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	switch {
	case bs.closed:
		return ErrDraining
	case bs.making || bs.readers > 0:
		return ErrBackupBusy
	}
	if err := bs.endLocked(); err != nil {
		return storeError("ending a backup", err)
	}
	bs.making = true
	return nil
}

func (bs *backups) readLocked() *Backup {
	current := bs.current
	bs.readers++
	if bs.idle != nil {
		bs.idle.Stop()
		bs.idle = nil
	}
	return &Backup{
		ReadSeekCloser: current.Open(), ID: current.ID(), Size: current.Size(),
		leave: sync.OnceFunc(func() { bs.leave(current) }),
	}
}

func (bs *backups) leave(b storage.Backup) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.current != b {
		return // the backup ended while it was read
	}
	if bs.readers--; bs.readers == 0 {
		bs.idle = time.AfterFunc(BackupIdleMax, func() { bs.expire(b, false) })
	}
}

// expire ends a backup after its time limit. If evenRead is false, expire spares a backup with
// readers.
func (bs *backups) expire(b storage.Backup, evenRead bool) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.current == b && (bs.readers == 0 || evenRead) {
		bs.logEndLocked()
	}
}

func (bs *backups) logEndLocked() {
	if err := bs.endLocked(); err != nil {
		bs.logError(fmt.Errorf("session: finishing a backup: %w", err))
	}
}

func (bs *backups) endLocked() error {
	if bs.current == nil {
		return nil
	}
	bs.life.Stop()
	if bs.idle != nil {
		bs.idle.Stop()
	}
	b := bs.current
	bs.current, bs.idle, bs.readers = nil, nil, 0
	return b.Close()
}

func (bs *backups) close() {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	bs.closed = true
	bs.logEndLocked()
}
