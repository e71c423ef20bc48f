package zfs_test

import (
	"errors"
	"testing"

	"github.com/distort-io/distort/modules/agent/internal/command"
	"github.com/distort-io/distort/modules/agent/internal/zfs"
)

func TestSameCompression(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"lz4", "lz4", true}, {"lz4", "zstd", false}, {"gzip", "gzip-6", true}, {"gzip-6", "gzip", true}, {"gzip", "gzip-5", false},
		{"zstd", "zstd-3", true}, {"zstd-fast-1", "zstd-fast", true}, {"zstd-fast", "zstd", false}, {"", "lz4", true}, {"on", "", true}, {"on", "lz4", false},
	} {
		if got := zfs.SameCompression(c.a, c.b); got != c.same {
			t.Errorf("%q and %q: %t", c.a, c.b, got)
		}
	}
}

// The text is that of libzfs (lib/libzfs/libzfs_util.c).
func TestAPoolWithoutTheFeatureRefusesACompression(t *testing.T) {
	err := zfs.Classify(&command.ExitError{
		Cmd: "zfs", Code: 255, Stderr: "cannot set property for 'tank/distort/block/vol-1': pool and or dataset must be upgraded to set this property or value\n",
	})
	if !errors.Is(err, zfs.ErrRefused) {
		t.Errorf("%v is not ErrRefused", err)
	}
}
