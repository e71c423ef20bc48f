package zfs

import (
	"context"
	"fmt"
)

// Modify makes sure that the zvol has the compression of the spec, and returns it as
// it was read back. What was written before stays as it is. ErrRefused: ZFS does not
// take the value.
func (m *Manager) Modify(ctx context.Context, p Pool, s Spec) (Volume, error) {
	v, err := onPool(ctx, m, p, func(ctx context.Context) (Volume, error) {
		v, err := m.find(ctx, p, s.ID, s.UID)
		if err != nil || SameCompression(v.Compression, s.Compression) {
			return v, err
		}
		if _, err := m.run(ctx, "zfs", "set", "compression="+s.Compression, v.Dataset); err != nil {
			return Volume{}, err
		}
		if v, err = m.find(ctx, p, s.ID, s.UID); err == nil && !SameCompression(v.Compression, s.Compression) {
			err = fmt.Errorf("%s has compression %s after it was set to %s", v.Dataset, v.Compression, s.Compression)
		}
		return v, err
	})
	if err != nil {
		return Volume{}, fmt.Errorf("modify zvol %s on pool %s: %w", s.ID, p, err)
	}
	return v, nil
}

// defaultLevels are the levels that ZFS takes for those words without one, and may
// print as them (module/zcommon/zfs_prop.c).
var defaultLevels = map[string]string{"gzip-6": "gzip", "zstd-3": "zstd", "zstd-fast-1": "zstd-fast"}

// SameCompression tells whether two values of the property mean the same; "" means
// whatever the other one says.
func SameCompression(a, b string) bool {
	plain := func(v string) string {
		if word, ok := defaultLevels[v]; ok {
			return word
		}
		return v
	}
	return a == "" || b == "" || plain(a) == plain(b)
}
