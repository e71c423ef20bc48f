package filesystem

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/distort-io/distort/modules/csi/internal/detach"
)

// Amount is how much of something a filesystem has.
type Amount struct{ Total, Used, Available int64 }

// Usage is how full a filesystem is. Available bytes are those that a user
// without privilege can have.
type Usage struct{ Bytes, Inodes Amount }

// Usage asks the filesystem that is mounted at path. One that does not answer
// costs the caller his deadline and later callers no second call.
func (h *Host) Usage(ctx context.Context, path string) (Usage, error) {
	s, err := detach.Join(ctx, &h.calls, "statfs "+path, func() (unix.Statfs_t, error) { return h.mounter.Statfs(path) })
	if err != nil {
		return Usage{}, err
	}
	return Usage{
		Bytes: Amount{
			Total: int64(s.Blocks) * s.Frsize, Used: int64(s.Blocks-s.Bfree) * s.Frsize, Available: int64(s.Bavail) * s.Frsize,
		},
		Inodes: Amount{Total: int64(s.Files), Used: int64(s.Files - s.Ffree), Available: int64(s.Ffree)},
	}, nil
}
