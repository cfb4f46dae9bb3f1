package pgstore

import (
	"context"
	"errors"
	"io"
	"time"
)

// AloneLock is the lock of those who have a database open.
const AloneLock = aloneLock

// Sweep removes what no snapshot refers to and is older than that.
func (s *Store) Sweep(ctx context.Context, age time.Duration) error { return s.sweep(ctx, age) }

// Objects tells how many objects the database knows of, snapshots or not.
func (s *Store) Objects(ctx context.Context) (n int, err error) {
	err = s.pool.QueryRow(ctx, `select count(*) from objects`).Scan(&n)
	return n, err
}

// Exec changes what is in the database.
func (s *Store) Exec(ctx context.Context, sql string) error {
	_, err := s.pool.Exec(ctx, sql)
	return err
}

// LeaveHalf leaves what a process leaves that is killed while it writes a snapshot.
func (s *Store) LeaveHalf(ctx context.Context) error {
	name := objectName("half", 0, 1)
	if err := s.objects.bucket.WriteAll(ctx, name, []byte("half"), nil); err != nil {
		return err
	}
	return s.Exec(ctx, `insert into objects (object, refs) values ('`+name+`', 0)`)
}

// MarkerName is that of the object that says whose the store is.
const MarkerName = markerName

// ObjectNames lists what is in the object store beside the marker.
func (s *Store) ObjectNames(ctx context.Context) (names []string, err error) {
	for all := s.objects.bucket.List(nil); ; {
		o, err := all.Next(ctx)
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, err
		}
		if o.Key != markerName {
			names = append(names, o.Key)
		}
	}
}

// Overwrite damages an object; nil removes the object.
func (s *Store) Overwrite(ctx context.Context, name string, content []byte) error {
	if content == nil {
		return s.objects.bucket.Delete(ctx, name)
	}
	return s.objects.bucket.WriteAll(ctx, name, content, nil)
}
