package postgres

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/url"
	"sync/atomic"
	"syscall"

	"github.com/lmserve/lmserve/internal/serving/spool"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

type objects struct {
	bucket bucket
	where  string // the URL of the bucket, without parameters

	id, database string      // the id and the name of the database, see marker.go
	gone         atomic.Bool // the last check did not find the right marker
	report       func(error) // called when the object store disappears or comes back; may be nil
}

// bucket stores objects, in a folder or in a cloud. The error for a missing object is
// fs.ErrNotExist.
type bucket interface {
	// write makes a durable object from the output of the function fill. After an error there is no
	// object, or the outcome is unknown. The error is fs.ErrExist if an object has the name
	// already.
	write(ctx context.Context, name string, fill func(io.Writer) error) error
	read(ctx context.Context, name string) (io.ReadCloser, error)
	size(ctx context.Context, name string) (bytes int64, err error)
	remove(ctx context.Context, name string) error
	close() error
}

// openers has the functions that open a bucket, by the scheme of its URL. Build tags select the
// clients of object stores, because these clients need a quarter of all modules that a build
// downloads.
var openers = map[string]func(ctx context.Context, url string) (bucket, error){}

// tags has the build tags that include the clients of object stores, by the scheme of a URL.
var tags = map[string]string{"s3": "s3", "gs": "clouds", "azblob": "clouds"}

// openObjects opens the object store at a URL. It makes a missing folder if create is set.
func openObjects(ctx context.Context, at string, create bool) (*objects, error) {
	u, err := url.Parse(at)
	if err != nil {
		return nil, storage.Invalid("the URL of the objects: %v", err)
	}
	o := &objects{where: u.Scheme + "://" + u.Host + u.Path}
	open, ok := openers[u.Scheme]
	switch {
	case u.Scheme == "file":
		if u.Host != "" || u.Path == "" {
			return nil, storage.Invalid("the objects' URL %q, expected an absolute folder, as in "+
				"file:///var/lib/lmserve", at)
		}
		open = func(context.Context, string) (bucket, error) { return openFolder(u.Path, create) }
	case !ok && tags[u.Scheme] != "":
		return nil, storage.Invalid("the objects' URL begins with %q: this program was built "+
			"without the client of that object store; releases include s3://, and 'go build "+
			"-tags %s ./cmd/lmserve' builds a program with %[1]s", u.Scheme+"://", tags[u.Scheme])
	case !ok:
		return nil, storage.Invalid("the objects' URL begins with %q, expected s3://bucket, "+
			"gs://bucket, azblob://bucket or file:///folder", u.Scheme+"://")
	}
	o.bucket, err = open(ctx, at)
	if err != nil {
		return nil, unavailable(fmt.Errorf("opening the object store %s: %w; expected an "+
			"existing folder or bucket: mount the folder, or name the bucket", o.where, err))
	}
	return o, nil
}

func (o *objects) close() error { return o.bucket.close() }

func objectName(id string, at int64, epoch uint64) string {
	return fmt.Sprintf("%s/%016x-%d-%s.safetensors.zst", id, at, epoch, rand.Text())
}

// put writes a compressed object, and checks that the object store has the object. It returns the
// compressed size in bytes and the SHA-256. After an error there is no object, or the outcome is
// unknown.
func (o *objects) put(
	ctx context.Context, name string, write func(io.Writer) error,
) (bytes int64, sum [sha256.Size]byte, err error) {
	// if the object store is not mounted, write would put the object into the mount point
	if err := o.present(ctx); err != nil {
		return 0, sum, err
	}
	to := &measured{hash: sha256.New()}
	filled := false
	err = o.bucket.write(ctx, name, func(w io.Writer) error {
		to.to = w
		err := storage.CompressSnapshot(ctx, to, write)
		filled = err == nil
		return err
	})
	switch {
	case err == nil:
		err = o.holds(ctx, name, to.bytes)
		return to.bytes, [sha256.Size]byte(to.hash.Sum(nil)), err
	case to.failed != nil:
		return 0, sum, objectError("writing object "+name, to.failed)
	case filled || to.to == nil:
		return 0, sum, objectError("writing object "+name, err)
	}
	return 0, sum, err // an error of the function write, not of the object store
}

// measured is a writer that counts and hashes the bytes, and keeps an error of the object store.
type measured struct {
	to     io.Writer
	hash   hash.Hash
	bytes  int64
	failed error
}

func (m *measured) Write(p []byte) (n int, err error) {
	if n, err = m.to.Write(p); err != nil {
		m.failed = err
	}
	m.hash.Write(p[:n])
	m.bytes += int64(n)
	return n, err
}

// get copies an object to a temporary file, and returns the object's size in bytes and its SHA-256.
// If the object is missing, the error is ErrNotFound. The object store may then be a wrong one, so
// the caller must check the marker.
func (o *objects) get(
	ctx context.Context, name string,
) (_ *spool.Spool, bytes int64, sum [sha256.Size]byte, err error) {
	r, err := o.bucket.read(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, sum, fmt.Errorf("postgres: object %s: %w: %w", name, storage.ErrNotFound,
			err)
	}
	if err != nil {
		return nil, 0, sum, objectError("reading object "+name, err)
	}
	defer r.Close()
	sp, err := spool.New()
	if err != nil {
		return nil, 0, sum, unavailable(err)
	}
	read := sha256.New()
	bytes, err = io.Copy(io.MultiWriter(sp, read), r)
	if err != nil {
		sp.Close()
		return nil, 0, sum, objectError("reading object "+name, err)
	}
	return sp, bytes, [sha256.Size]byte(read.Sum(nil)), nil
}

// remove removes an object. It returns no error if the object is missing.
func (o *objects) remove(ctx context.Context, name string) error {
	err := o.bucket.remove(ctx, name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return objectError("removing object "+name, err)
}

func objectError(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("postgres: %s: %w: %w", what, storage.ErrNoSpace, err)
	}
	return fmt.Errorf("postgres: %s: %w: %w", what, storage.ErrUnavailable, err)
}
