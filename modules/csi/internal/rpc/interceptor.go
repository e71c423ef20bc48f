package rpc

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"path"
	"runtime/debug"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/distort-io/distort/modules/csi/internal/redact"
	"github.com/distort-io/distort/modules/csi/internal/telemetry"
)

// defaultTimeout bounds calls whose caller sets no deadline.
const defaultTimeout = 2 * time.Minute

// quiet are the methods that callers repeat for ever and that have no effect.
var quiet = []string{
	"Probe", "GetPluginInfo", "GetPluginCapabilities", "ControllerGetCapabilities", "NodeGetCapabilities", "NodeGetInfo", "GetInfo",
	"GetCapacity", "ListVolumes", "ControllerGetVolume", "ControllerGetVolumeHealth", "ControllerListVolumeHealth",
	"NodeGetVolumeStats", "NodeGetVolumeHealth", "NodeGetStorageHealth",
}

// around runs a handler with a deadline, keeps the process alive if it panics,
// and logs one line about it. Handlers find a logger with the request ID in
// their context.
func around(log logr.Logger, redactor *redact.Redactor) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (response any, err error) {
		method := path.Base(info.FullMethod)
		log := log.WithValues("method", method, "requestID", newRequestID())
		if id := telemetry.ID(ctx); id != "" {
			log = log.WithValues("trace_id", id)
		}
		ctx = logr.NewContext(ctx, log)
		if _, bounded := ctx.Deadline(); !bounded {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, defaultTimeout)
			defer cancel()
		}
		begun := time.Now()
		defer func() {
			if p := recover(); p != nil {
				log.Error(nil, "handler panicked", "panic", p, "stack", string(debug.Stack()))
				response, err = nil, status.Error(codes.Internal, "internal error; the log of the driver has the details")
			}
			level := log
			if err == nil && slices.Contains(quiet, method) {
				level = log.V(1)
			}
			values := []any{"code", status.Code(err).String(), "duration", time.Since(begun).String(), "request", redactor.Message(request)}
			if err != nil {
				level.Error(err, "call failed", values...)
			} else {
				level.Info("call answered", values...)
			}
		}()
		return handler(ctx, request)
	}
}

// newRequestID is 64 random bits in hexadecimal.
func newRequestID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
