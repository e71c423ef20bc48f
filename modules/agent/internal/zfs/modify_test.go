package zfs_test

import (
	"testing"

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
