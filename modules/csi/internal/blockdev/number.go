// Package blockdev names block devices by number, the one name that sysfs,
// mountinfo and a device node share.
package blockdev

import (
	"fmt"
	"strconv"
	"strings"
)

// Number is a block device's major and minor number.
type Number struct {
	Major, Minor uint32
}

// String is major:minor, as sysfs and mountinfo write it.
func (n Number) String() string { return fmt.Sprintf("%d:%d", n.Major, n.Minor) }

// ParseNumber reads what String writes.
func ParseNumber(text string) (Number, error) {
	major, minor, found := strings.Cut(text, ":")
	a, errA := strconv.ParseUint(major, 10, 32)
	b, errB := strconv.ParseUint(minor, 10, 32)
	if !found || errA != nil || errB != nil {
		return Number{}, fmt.Errorf("device number %q, want major:minor", text)
	}
	return Number{Major: uint32(a), Minor: uint32(b)}, nil
}
