// Package driver reaches the CSI driver's sockets in the guests, as kubelet and
// the sidecars do.
package driver

import (
	"context"
	"fmt"
	"net"
	"path"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/e2e/internal/guestexec"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

const (
	nodeSocket = "/var/lib/kubelet/plugins/" + v1alpha1.DriverName + "/csi.sock"
	podDir     = "/var/lib/kubelet/pods"
	// controllerPods begins the names of the controller's pods, and
	// controllerSocket is below the directory of one.
	controllerPods   = "distort-csi-controller-"
	controllerSocket = "volumes/kubernetes.io~empty-dir/socket/private/csi.sock"
)

// Socket is where a driver serves.
type Socket struct {
	// Node is the guest, Path the socket in it.
	Node, Path string
}

// Node returns the socket of the driver's node part.
func Node(name string) Socket { return Socket{Node: name, Path: nodeSocket} }

// Controller finds the socket of the driver's controller part.
func Controller(ctx context.Context, cluster client.Client) (Socket, error) {
	pods := &corev1.PodList{}
	if err := cluster.List(ctx, pods, client.InNamespace(v1alpha1.DefaultNamespace)); err != nil {
		return Socket{}, err
	}
	for _, pod := range pods.Items {
		if strings.HasPrefix(pod.Name, controllerPods) {
			return Socket{Node: pod.Spec.NodeName, Path: path.Join(podDir, string(pod.UID), controllerSocket)}, nil
		}
	}
	return Socket{}, fmt.Errorf("no pod %s* in namespace %s", controllerPods, v1alpha1.DefaultNamespace)
}

// Target is the address for Options.
const Target = "passthrough:///" + v1alpha1.DriverName

// Options make a connection to Target reach a socket through its guest, for as
// long as ctx lasts.
func Options(ctx context.Context, guest *guestexec.Client, socket Socket) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			return guest.DialUnix(ctx, socket.Path), nil
		}),
	}
}
