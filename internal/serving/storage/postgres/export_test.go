package postgres

import (
	"context"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"
)

const (
	AloneLock  = aloneLock
	SweepBatch = sweepBatch
)

func (s *Store) Sweep(ctx context.Context, age time.Duration) error { return s.sweep(ctx, age) }

func (s *Store) ForgetNodes(ctx context.Context, age time.Duration) error {
	return s.forgetNodes(ctx, age)
}

func (s *Store) Nodes(ctx context.Context) (n int, err error) {
	err = s.pool.QueryRow(ctx, `select count(*) from nodes`).Scan(&n)
	return n, err
}

func (s *Store) Objects(ctx context.Context) (n int, err error) {
	err = s.pool.QueryRow(ctx, `select count(*) from objects`).Scan(&n)
	return n, err
}

func (s *Store) Exec(ctx context.Context, sql string) error {
	_, err := s.pool.Exec(ctx, sql)
	return err
}

// LeaveHalf creates an object without a snapshot. A process that is killed while it writes a
// snapshot leaves such an object.
func (s *Store) LeaveHalf(ctx context.Context) error {
	name := objectName("half", 0, 1)
	if err := s.overwrite(ctx, name, []byte("half")); err != nil {
		return err
	}
	return s.Exec(ctx, `insert into objects (object, refs) values ('`+name+`', 0)`)
}

const MarkerName = markerName

func (s *Store) ObjectNames(ctx context.Context) ([]string, error) {
	names, err := s.objects.bucket.(interface {
		names(context.Context) ([]string, error)
	}).names(ctx)
	return slices.DeleteFunc(names, func(name string) bool { return name == markerName }), err
}

func (f folder) names(context.Context) (names []string, err error) {
	err = fs.WalkDir(os.DirFS(string(f)), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, name)
		}
		return err
	})
	return names, err
}

// BeforeRead calls a function once, before the store reads the next object.
func (s *Store) BeforeRead(do func()) {
	b := &beforeRead{bucket: s.objects.bucket}
	b.do = func() {
		s.objects.bucket = b.bucket
		do()
	}
	s.objects.bucket = b
}

type beforeRead struct {
	bucket
	do func()
}

func (b *beforeRead) read(ctx context.Context, name string) (io.ReadCloser, error) {
	if name != markerName {
		b.do()
	}
	return b.bucket.read(ctx, name)
}

// Overwrite replaces the content of an object, or removes the object if content is nil.
func (s *Store) Overwrite(ctx context.Context, name string, content []byte) error {
	if content == nil {
		return s.objects.bucket.remove(ctx, name)
	}
	return s.overwrite(ctx, name, content)
}

func (s *Store) overwrite(ctx context.Context, name string, content []byte) error {
	if err := s.objects.remove(ctx, name); err != nil {
		return err
	}
	return s.objects.bucket.write(ctx, name, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}
