package rpc

import (
	"context"
	"path"
	"slices"

	"google.golang.org/grpc"

	"github.com/distort-io/distort/modules/csi/internal/telemetry"
)

// Trace makes a span for each call that is not quiet. origin says to which trace
// it belongs.
func Trace(t *telemetry.Tracer, origin func(ctx context.Context, request any) telemetry.Origin) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if slices.Contains(quiet, path.Base(info.FullMethod)) {
			return handler(ctx, request)
		}
		return t.Call(ctx, info, origin(ctx, request), func(ctx context.Context) (any, error) { return handler(ctx, request) })
	}
}
