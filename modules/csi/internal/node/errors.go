package node

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/distort-io/distort/modules/csi/internal/filesystem"
	"github.com/distort-io/distort/modules/csi/internal/formatonce"
	"github.com/distort-io/distort/modules/csi/internal/initiator"
	"github.com/distort-io/distort/modules/csi/internal/volumecontext"
)

// refusal is an error whose gRPC code the node itself decided.
type refusal struct {
	code codes.Code
	err  error
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

func refusef(code codes.Code, format string, args ...any) error {
	return &refusal{code: code, err: fmt.Errorf(format, args...)}
}

func invalidf(format string, args ...any) error {
	return refusef(codes.InvalidArgument, format, args...)
}

// toStatus is the only place where domain errors become gRPC codes.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	return status.Error(code(err), err.Error())
}

func code(err error) codes.Code {
	var decided *refusal
	var missing *initiator.NotFoundError
	switch is := func(target error) bool { return errors.Is(err, target) }; {
	case errors.As(err, &decided):
		return decided.code
	case is(context.Canceled):
		return codes.Canceled
	case is(context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case is(initiator.ErrInvalid), is(filesystem.ErrInvalid), is(volumecontext.ErrInvalid):
		return codes.InvalidArgument
	case is(filesystem.ErrOccupied):
		// CSI: staged or published already, incompatible with the request.
		return codes.AlreadyExists
	case is(formatonce.ErrRefused), is(initiator.ErrForeign), is(initiator.ErrAmbiguous),
		is(initiator.ErrUnsupported), is(filesystem.ErrNotMounted), is(filesystem.ErrDamaged), is(filesystem.ErrInUse):
		return codes.FailedPrecondition
	case is(unix.EROFS):
		// A journal that may not be replayed, since many nodes read the volume.
		return codes.FailedPrecondition
	case errors.As(err, &missing) && missing.Reason == initiator.OtherIdentity:
		return codes.FailedPrecondition
	case is(initiator.ErrNotFound), is(initiator.ErrUnreachable), is(initiator.ErrRefused),
		is(initiator.ErrBusy), is(initiator.ErrTooSmall), is(formatonce.ErrRecord):
		return codes.Unavailable
	case is(initiator.ErrChanged):
		return codes.Aborted
	}
	return codes.Internal
}

// final tells whether kubelet takes the code as proof that nothing was staged:
// after such an answer it need not call NodeUnstageVolume (Kubernetes,
// pkg/volume/csi/csi_client.go, isFinalError).
func final(c codes.Code) bool {
	switch c {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted:
		return false
	}
	return true
}
