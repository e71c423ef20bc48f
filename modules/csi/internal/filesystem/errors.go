package filesystem

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Errors is how many errors the kernel has found in a mounted ext4 filesystem
// since it was last checked, in memory and on the disk. After one it may refuse
// writes: Linux 6.12 to 6.14 say so nowhere else (Mount.FailedReadOnly). What is
// not ext4 keeps no count, and neither does what is no longer there.
func (h *Host) Errors(m Mount) (int64, error) {
	if m.FSType != string(Ext4) {
		return 0, nil
	}
	text, err := h.mounter.ErrorsCount(m.Source)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	count, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("errors_count of %s is %q, want a number", m.Source, text)
	}
	return count, nil
}
