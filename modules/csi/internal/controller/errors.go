package controller

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/distort-io/distort/modules/csi/internal/await"
	"github.com/distort-io/distort/modules/csi/internal/request"
)

// What can be wrong, apart from the request itself.
var (
	// errBusy: the volume has another operation, or has just been changed under
	// this one; the same call again may succeed.
	errBusy = errors.New("busy")
	// errNotFound: no such volume or node.
	errNotFound = errors.New("not found")
	// errConflict: the name is taken by a volume that the request does not suit.
	errConflict = errors.New("already exists")
	// errState: somebody must do something else first.
	errState = errors.New("refused in this state")
	// errNoCapacity: nothing was changed, since there is no room for it.
	errNoCapacity = errors.New("no capacity")
	// errFailed: a person must act.
	errFailed = errors.New("failed")
	// errNotYet: what the call needs is not there now.
	errNotYet = errors.New("not available yet")
)

func refusef(kind error, format string, args ...any) error {
	return fmt.Errorf("%w: %w", kind, fmt.Errorf(format, args...))
}

// toStatus is the only place where errors become gRPC codes.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	return status.Error(codeOf(err), err.Error())
}

// codeOf is careful with codes that a CO takes for final: after those,
// external-provisioner believes that no volume was made and forgets it. Only
// errors that leave nothing behind may have them.
func codeOf(err error) codes.Code {
	switch is := func(target error) bool { return errors.Is(err, target) }; {
	case is(context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case is(context.Canceled):
		return codes.Canceled
	case is(request.ErrInvalid):
		return codes.InvalidArgument
	case is(request.ErrOutOfRange):
		return codes.OutOfRange
	case is(request.ErrNoVolume), is(request.ErrNoSnapshot), is(errNotFound):
		return codes.NotFound
	case is(errBusy), is(await.ErrVanished), is(request.ErrBadToken):
		return codes.Aborted
	case is(errConflict):
		return codes.AlreadyExists
	case is(errState), is(errFailed):
		return codes.FailedPrecondition
	case is(errNoCapacity):
		return codes.ResourceExhausted
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		// The API server refused the object, so there is none.
		return codes.Internal
	}
	// A request that got no answer may have been carried out.
	return codes.Unavailable
}
