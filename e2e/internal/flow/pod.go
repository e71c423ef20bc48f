package flow

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	podTimeout  = 4 * time.Minute
	goneTimeout = 2 * time.Minute
	// DataDir is where a pod sees its volume.
	DataDir = "/data"
	// DevicePath is where a pod sees a raw volume.
	DevicePath = "/dev/data"

	containerName = "main"
	volumeName    = "data"
)

// Pod describes a pod that holds a volume and waits for commands.
type Pod struct {
	Name, Image string
	// Claim is the PersistentVolumeClaim it mounts.
	Claim string
	// Node is where it must run; empty means anywhere.
	Node string
	// Block is for a claim of a raw device.
	Block bool
	// User is who runs in it, and the fsGroup of its volume; zero is root.
	User int64
}

// Started is how long after its creation a pod reached each state.
type Started struct {
	// Node is where it was scheduled.
	Node string
	// Scheduled, and Running: all volumes mounted and the container started.
	Scheduled, Running time.Duration
}

// StartPod makes a pod and waits until it runs.
func (f *Flow) StartPod(ctx context.Context, pod Pod) (Started, error) {
	since := time.Now()
	if err := f.CreatePod(ctx, pod); err != nil {
		return Started{}, err
	}
	var started Started
	err := Eventually(ctx, "pod "+pod.Name+" runs", podTimeout, func(ctx context.Context) (string, error) {
		got := &corev1.Pod{}
		if err := f.client.Get(ctx, client.ObjectKey{Namespace: f.Namespace, Name: pod.Name}, got); err != nil {
			return "", err
		}
		if started.Scheduled == 0 && got.Spec.NodeName != "" {
			started.Scheduled, started.Node = time.Since(since), got.Spec.NodeName
		}
		if got.Status.Phase == corev1.PodRunning {
			started.Running = time.Since(since)
			return "", nil
		}
		return podState(got), nil
	})
	return started, err
}

// CreatePod makes a pod without waiting for it.
func (f *Flow) CreatePod(ctx context.Context, pod Pod) error {
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: f.Namespace}, Spec: pod.spec()}
	if pod.Node != "" {
		object.Spec.NodeSelector = map[string]string{corev1.LabelHostname: pod.Node}
	}
	if err := f.client.Create(ctx, object); err != nil {
		return fmt.Errorf("make pod %s: %w", pod.Name, err)
	}
	return nil
}

func (p Pod) spec() corev1.PodSpec {
	grace := int64(1)
	container := corev1.Container{
		Name: containerName, Image: p.Image, ImagePullPolicy: corev1.PullNever,
		Command: []string{"sleep", "2147483647"},
		// Without a request a pod gets what kubelet and containerd leave of an
		// emulated CPU, which on a busy host is next to nothing.
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m")}},
	}
	if p.Block {
		container.VolumeDevices = []corev1.VolumeDevice{{Name: volumeName, DevicePath: DevicePath}}
	} else if p.Claim != "" {
		container.VolumeMounts = []corev1.VolumeMount{{Name: volumeName, MountPath: DataDir}}
	}
	spec := corev1.PodSpec{Containers: []corev1.Container{container}, TerminationGracePeriodSeconds: &grace, DNSPolicy: corev1.DNSDefault}
	if p.User != 0 {
		spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &p.User, RunAsGroup: &p.User, FSGroup: &p.User}
	}
	if p.Claim != "" {
		spec.Volumes = []corev1.Volume{{Name: volumeName, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: p.Claim},
		}}}
	}
	return spec
}

// WaitRestarted waits until a pod runs again after its node was rebooted.
func (f *Flow) WaitRestarted(ctx context.Context, name string, timeout time.Duration) error {
	return Eventually(ctx, "pod "+name+" runs again", timeout, func(ctx context.Context) (string, error) {
		got := &corev1.Pod{}
		if err := f.client.Get(ctx, client.ObjectKey{Namespace: f.Namespace, Name: name}, got); err != nil {
			return "", err
		}
		for _, status := range got.Status.ContainerStatuses {
			if status.RestartCount > 0 && status.Ready {
				return "", nil
			}
		}
		return podState(got), nil
	})
}

// DeletePod deletes a pod and waits until it is gone.
func (f *Flow) DeletePod(ctx context.Context, name string) error {
	return f.deleteAndWait(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: f.Namespace}}, goneTimeout)
}

// Exec runs a command in a pod and returns its standard output.
func (f *Flow) Exec(ctx context.Context, pod string, args ...string) (string, error) {
	url := f.set.CoreV1().RESTClient().Post().Resource("pods").Namespace(f.Namespace).Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: containerName, Command: args, Stdout: true, Stderr: true}, scheme.ParameterCodec).URL()
	executor, err := remotecommand.NewWebSocketExecutor(f.config, "GET", url.String())
	if err != nil {
		return "", fmt.Errorf("in pod %s: %w", pod, err)
	}
	var out, errOut bytes.Buffer
	if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &errOut}); err != nil {
		return out.String(), fmt.Errorf("in pod %s: %s: %w: %s", pod, strings.Join(args, " "), err, strings.TrimSpace(errOut.String()))
	}
	return out.String(), nil
}

// WriteFile fills a file of a pod's volume with random data, forces it to the
// device and returns its checksum.
func (f *Flow) WriteFile(ctx context.Context, pod, path string, mebibytes int) (string, error) {
	if _, err := f.Exec(ctx, pod, "dd", "if=/dev/urandom", "of="+path, "bs=1M", fmt.Sprintf("count=%d", mebibytes), "conv=fsync"); err != nil {
		return "", err
	}
	return f.Checksum(ctx, pod, path)
}

// Checksum returns the SHA-256 of a file in a pod.
func (f *Flow) Checksum(ctx context.Context, pod, path string) (string, error) {
	out, err := f.Exec(ctx, pod, "sha256sum", path)
	if err != nil {
		return "", err
	}
	sum, _, ok := strings.Cut(out, " ")
	if !ok || len(sum) != 64 {
		return "", fmt.Errorf("in pod %s: sha256sum %s printed %q", pod, path, out)
	}
	return sum, nil
}

// FilesystemMiB returns the size of the filesystem of a pod's volume in MiB.
func (f *Flow) FilesystemMiB(ctx context.Context, pod string) (int, error) {
	out, err := f.Exec(ctx, pod, "stat", "-f", "-c", "%b %S", DataDir)
	if err != nil {
		return 0, err
	}
	var blocks, size int
	if _, err := fmt.Sscan(out, &blocks, &size); err != nil {
		return 0, fmt.Errorf("in pod %s: stat -f printed %q: %w", pod, out, err)
	}
	return blocks * size >> 20, nil
}

// DropCaches makes a node forget file data, so that the next read comes from
// the device.
func (f *Flow) DropCaches(ctx context.Context, node string) error {
	guest, err := f.lab.Guest(node)
	if err != nil {
		return err
	}
	_, err = guest.Pipe(ctx, strings.NewReader("3"), "tee", "/proc/sys/vm/drop_caches")
	return err
}

// podState says in one line what keeps a pod from running.
func podState(pod *corev1.Pod) string {
	parts := []string{"phase " + string(pod.Status.Phase)}
	for _, condition := range pod.Status.Conditions {
		if condition.Status != corev1.ConditionTrue {
			parts = append(parts, fmt.Sprintf("%s=%s %s %s", condition.Type, condition.Status, condition.Reason, condition.Message))
		}
	}
	for _, status := range pod.Status.ContainerStatuses {
		if waiting := status.State.Waiting; waiting != nil {
			parts = append(parts, fmt.Sprintf("container %s waits: %s %s", status.Name, waiting.Reason, waiting.Message))
		}
	}
	return strings.Join(parts, ", ")
}
