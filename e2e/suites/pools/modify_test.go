package pools

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/e2e/internal/driver"
	"github.com/distort-io/distort/e2e/internal/suite"
	"github.com/distort-io/distort/e2e/internal/zpool"
)

// The lab's csi-resizer does not know the API by which this Kubernetes serves
// VolumeAttributesClasses, so the driver is asked as a later one does.
func recompressed(t *testing.T, w *world) {
	ctx := t.Context()
	was := w.write(t, source)
	volume, err := w.PoolVolume(ctx, source)
	suite.Must(t, err)
	pv := &corev1.PersistentVolume{}
	suite.Must(t, w.Client().Get(ctx, client.ObjectKey{Name: volume.Name}, pv))

	socket, err := driver.Controller(ctx, w.Client())
	suite.Must(t, err)
	conn, err := grpc.NewClient(driver.Target, driver.Options(ctx, suite.Guest(t, w.lab, socket.Node), socket)...)
	suite.Must(t, err)
	defer conn.Close()
	modify := func(parameters map[string]string) error {
		_, err := csi.NewControllerClient(conn).ControllerModifyVolume(ctx, &csi.ControllerModifyVolumeRequest{
			VolumeId: pv.Spec.CSI.VolumeHandle, MutableParameters: parameters,
		})
		return err
	}
	// ZFS may print a default level as the word without it.
	for compression, word := range map[string]string{"zstd-3": "zstd", "gzip-6": "gzip", "zstd-fast-1": "zstd-fast", "lz4": "lz4", "off": "off"} {
		suite.Must(t, modify(map[string]string{"compression": compression}))
		got, err := zpool.Property(ctx, w.storage, "compression", volume.Status.DatasetPath)
		suite.Must(t, err)
		if got != compression && got != word {
			t.Errorf("ZFS says %q after %s", got, compression)
		}
		now, err := w.PoolVolume(ctx, source)
		suite.Must(t, err)
		if now.Status.Compression != compression {
			t.Errorf("the Volume says %q after %s", now.Status.Compression, compression)
		}
	}
	if err := modify(map[string]string{"blocksize": "4096"}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a block size that is to change: %v", err)
	}
	w.mustHave(t, source, first, was)
}
