package driver

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"github.com/distort-io/distort/e2e/internal/guestexec"
)

// Health asks the driver of a node what is wrong with a volume there.
func Health(ctx context.Context, guest *guestexec.Client, node, handle string) ([]*csi.VolumeHealth_VolumeHealthEntry, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := grpc.NewClient(Target, Options(ctx, guest, Node(node))...)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	answer, err := csi.NewNodeClient(conn).NodeGetVolumeHealth(ctx, &csi.NodeGetVolumeHealthRequest{VolumeId: handle})
	if err != nil {
		return nil, err
	}
	return answer.GetVolumeHealth().GetHealthStatuses(), nil
}
