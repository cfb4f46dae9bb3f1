package pgstore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	_ "gocloud.dev/blob/s3blob" // takes s3:// URLs
	"gocloud.dev/gcerrors"

	"github.com/lmserve/lmserve/internal/atomicfile"
	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/internal/spool"
)

// objects is the object store.
type objects struct {
	bucket *blob.Bucket
	folder string // that objects are files of; "": none
	where  string // its URL, without parameters

	id, database string      // of whom the store has to be, see marker.go
	gone         atomic.Bool // as it was when the marker was last looked for
	report       func(error) // is told when the store goes and comes; nil: nobody is
}

// buckets are the schemes of URLs of buckets, and otherBuckets says what the error about another
// scheme adds. Clients of more services than this make the program a third larger: see clouds.go.
var (
	buckets      = []string{"s3"}
	otherBuckets = "; a program that was built with -tags clouds also takes gs:// and azblob://"
)

// openObjects opens the object store of a URL. A folder that is not there is made if create says so.
func openObjects(ctx context.Context, at string, create bool) (*objects, error) {
	u, err := url.Parse(at)
	if err != nil {
		return nil, sessionlog.Invalid("the URL of the objects: %v", err)
	}
	o := &objects{where: u.Scheme + "://" + u.Host + u.Path}
	switch {
	case slices.Contains(buckets, u.Scheme):
		o.bucket, err = blob.OpenBucket(ctx, at)
	case u.Scheme == fileblob.Scheme:
		if u.Host != "" || u.Path == "" {
			return nil, sessionlog.Invalid("the objects' URL %q, expected an absolute folder, as in "+
				"file:///var/lib/lmserve", at)
		}
		o.folder = filepath.FromSlash(u.Path)
		if runtime.GOOS == "windows" {
			o.folder = filepath.FromSlash(u.Path[1:]) // of /C:/folder
		}
		o.bucket, err = fileblob.OpenBucket(o.folder, &fileblob.Options{
			CreateDir: create, DirFileMode: 0o700, NoTempDir: true, Metadata: fileblob.MetadataDontWrite,
		})
	default:
		return nil, sessionlog.Invalid("the objects' URL begins with %q, expected %s://bucket or "+
			"file:///folder%s", u.Scheme+"://", strings.Join(buckets, "://bucket, "), otherBuckets)
	}
	if err != nil {
		return nil, unavailable(fmt.Errorf("opening the object store %s: %w; expected a folder or "+
			"bucket that is there: mount the folder, or name the bucket", o.where, err))
	}
	return o, nil
}

func (o *objects) close() error { return o.bucket.Close() }

// objectName is a name that no other object has, whoever makes it.
func objectName(id string, at int64, epoch uint64) string {
	return fmt.Sprintf("%s/%016x-%d-%s.safetensors.zst", id, at, epoch, rand.Text())
}

// put writes an object, compressed, makes sure that the database's store has it, and tells how many
// bytes it has, and their SHA-256. After an error there is no object, or nobody knows.
func (o *objects) put(
	ctx context.Context, name string, write func(io.Writer) error,
) (bytes int64, sum [sha256.Size]byte, err error) {
	ctx, cancel := context.WithCancel(ctx) // which is how a writer of objects is told to give up
	defer cancel()
	if err := o.present(ctx); err != nil { // writing would make a folder that is not there
		return 0, sum, err
	}
	w, err := o.bucket.NewWriter(ctx, name, &blob.WriterOptions{
		ContentType: "application/zstd", IfNotExist: true,
	})
	if err != nil {
		return 0, sum, objectError("making object "+name, err)
	}
	to := &measured{to: w, hash: sha256.New()}
	if err := sessionlog.CompressSnapshot(ctx, to, write); err != nil {
		if to.failed != nil {
			err = objectError("writing object "+name, to.failed)
		}
		cancel()
		_ = w.Close()
		return 0, sum, err
	}
	if err := w.Close(); err != nil {
		return 0, sum, objectError("writing object "+name, err)
	}
	if err := o.sync(name); err != nil {
		return 0, sum, objectError("writing object "+name, err)
	}
	if err := o.holds(ctx, name, to.bytes); err != nil {
		return 0, sum, err
	}
	return to.bytes, [sha256.Size]byte(to.hash.Sum(nil)), nil
}

// sync makes the file of an object durable, where objects are files.
func (o *objects) sync(name string) error {
	if o.folder == "" {
		return nil
	}
	path := filepath.Join(o.folder, filepath.FromSlash(name))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return errors.Join(atomicfile.SyncFolder(filepath.Dir(path)), atomicfile.SyncFolder(o.folder))
}

// measured counts and hashes what is written, and notes an error of its writer.
type measured struct {
	to     io.Writer
	hash   hash.Hash
	bytes  int64
	failed error
}

// Write implements io.Writer.
func (m *measured) Write(p []byte) (n int, err error) {
	if n, err = m.to.Write(p); err != nil {
		m.failed = err
	}
	m.hash.Write(p[:n])
	m.bytes += int64(n)
	return n, err
}

// get copies an object to a temporary file, and tells what put has told of it. ErrNotFound if the store
// that is there now has no such object.
func (o *objects) get(
	ctx context.Context, name string,
) (_ *spool.Spool, bytes int64, sum [sha256.Size]byte, err error) {
	r, err := o.bucket.NewReader(ctx, name, nil)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, 0, sum, fmt.Errorf("pgstore: object %s: %w: %w", name, sessionlog.ErrNotFound, err)
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

// remove removes an object, if there is one.
func (o *objects) remove(ctx context.Context, name string) error {
	err := o.bucket.Delete(ctx, name)
	if err == nil || gcerrors.Code(err) == gcerrors.NotFound {
		return nil
	}
	return objectError("removing object "+name, err)
}

// objectError is the error of a call to the object store.
func objectError(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("pgstore: %s: %w: %w", what, sessionlog.ErrNoSpace, err)
	}
	return fmt.Errorf("pgstore: %s: %w: %w", what, sessionlog.ErrUnavailable, err)
}
