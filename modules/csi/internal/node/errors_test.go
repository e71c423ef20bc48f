package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/distort-io/distort/modules/csi/internal/filesystem"
	"github.com/distort-io/distort/modules/csi/internal/formatonce"
	"github.com/distort-io/distort/modules/csi/internal/initiator"
)

func TestCodesOfDomainErrors(t *testing.T) {
	for err, want := range map[error]codes.Code{
		invalidf("x"):              codes.InvalidArgument,
		context.Canceled:           codes.Canceled,
		context.DeadlineExceeded:   codes.DeadlineExceeded,
		initiator.ErrInvalid:       codes.InvalidArgument,
		filesystem.ErrInvalid:      codes.InvalidArgument,
		filesystem.ErrOccupied:     codes.AlreadyExists,
		filesystem.ErrNotMounted:   codes.FailedPrecondition,
		formatonce.ErrRefused:      codes.FailedPrecondition,
		formatonce.ErrRecord:       codes.Unavailable,
		initiator.ErrForeign:       codes.FailedPrecondition,
		initiator.ErrAmbiguous:     codes.FailedPrecondition,
		initiator.ErrUnsupported:   codes.FailedPrecondition,
		initiator.ErrUnreachable:   codes.Unavailable,
		initiator.ErrRefused:       codes.Unavailable,
		initiator.ErrBusy:          codes.Unavailable,
		initiator.ErrChanged:       codes.Aborted,
		&initiator.NotFoundError{}: codes.Unavailable,
		&initiator.NotFoundError{Reason: initiator.OtherIdentity}:       codes.FailedPrecondition,
		errors.New("anything else"):                                     codes.Internal,
		errors.Join(initiator.ErrUnreachable, context.DeadlineExceeded): codes.DeadlineExceeded,
	} {
		if got := code(fmt.Errorf("doing something: %w", err)); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}

// A code that kubelet takes as final leaves nothing behind, so it is undone.
func TestCodesAfterWhichKubeletUnstages(t *testing.T) {
	for _, c := range []codes.Code{codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.Aborted, codes.ResourceExhausted} {
		if final(c) {
			t.Errorf("%s is final", c)
		}
	}
	for _, c := range []codes.Code{codes.FailedPrecondition, codes.Internal, codes.InvalidArgument, codes.AlreadyExists} {
		if !final(c) {
			t.Errorf("%s is not final", c)
		}
	}
}

// SE1
func FuzzParsePath(f *testing.F) {
	for _, seed := range []string{"/a/b", "/", "", "a", "/a/../b", "/a\x00", "//a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		got, err := parsePath("target_path", path)
		if err != nil {
			return
		}
		if got != path || !filepath.IsAbs(got) || got == "/" || strings.Contains(got, "\x00") || strings.Contains(got+"/", "/../") {
			t.Errorf("accepted %q as %q", path, got)
		}
	})
}
