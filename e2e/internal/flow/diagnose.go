package flow

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

const (
	diagnoseTimeout = 60 * time.Second
	// eventCount and logLines bound the report.
	eventCount = 25
	logLines   = 25
)

// Diagnose prints which boundary failed, and what helps to see why: every object
// along the way of a volume with its conditions, the last events, and the ends of
// the product's logs. It prints what it can get.
func (f *Flow) Diagnose(ctx context.Context, out io.Writer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), diagnoseTimeout)
	defer cancel()
	for _, section := range []struct {
		title string
		print func(context.Context, io.Writer) error
	}{
		{"kubectl distort explain --all", f.lab.Explain},
		{"objects along the way of a volume", f.printObjects},
		{"pods", f.printPods},
		{"last events", f.printEvents},
		{"ends of the product's logs", f.printLogs},
	} {
		fmt.Fprintf(out, "\n--- %s\n", section.title)
		if err := section.print(ctx, out); err != nil {
			fmt.Fprintln(out, "not available:", err)
		}
	}
}

func (f *Flow) printObjects(ctx context.Context, out io.Writer) error {
	devices := &v1alpha1.NVMeDeviceList{}
	if err := f.client.List(ctx, devices); err != nil {
		return err
	}
	for _, o := range devices.Items {
		fmt.Fprintf(out, "NVMeDevice %s serial=%s state=%s: %s\n", o.Name, o.Spec.SerialNumber, o.Status.State, Conditions(o.Status.Conditions))
	}
	drives := &v1alpha1.NVMeDeviceClaimList{}
	if err := f.client.List(ctx, drives); err != nil {
		return err
	}
	for _, o := range drives.Items {
		fmt.Fprintf(out, "NVMeDeviceClaim %s: %s\n", o.Name, Conditions(o.Status.Conditions))
	}
	nodes := &v1alpha1.RDMAStorageNodeList{}
	if err := f.client.List(ctx, nodes); err != nil {
		return err
	}
	for _, o := range nodes.Items {
		fmt.Fprintf(out, "RDMAStorageNode %s: %s\n", o.Name, Conditions(o.Status.Conditions))
	}
	claims := &corev1.PersistentVolumeClaimList{}
	if err := f.client.List(ctx, claims); err != nil {
		return err
	}
	for _, o := range claims.Items {
		fmt.Fprintf(out, "PersistentVolumeClaim %s/%s: %s %s\n", o.Namespace, o.Name, o.Status.Phase, o.Spec.VolumeName)
	}
	partitions := &v1alpha1.NVMePartitionList{}
	if err := f.client.List(ctx, partitions); err != nil {
		return err
	}
	for _, o := range partitions.Items {
		fmt.Fprintf(out, "NVMePartition %s state=%s node=%s drive=%s deleted=%v: %s\n", o.Name, o.Status.State, o.Spec.NodeName, o.Spec.ParentDeviceSerialNumber, o.DeletionTimestamp, Conditions(o.Status.Conditions))
	}
	if err := f.printPoolObjects(ctx, out); err != nil {
		return err
	}
	attachments := &storagev1.VolumeAttachmentList{}
	if err := f.client.List(ctx, attachments); err != nil {
		return err
	}
	for _, o := range attachments.Items {
		fmt.Fprintf(out, "VolumeAttachment %s node=%s attached=%t deleted=%v attachError=%v detachError=%v\n", o.Name, o.Spec.NodeName, o.Status.Attached, o.DeletionTimestamp, o.Status.AttachError, o.Status.DetachError)
	}
	ours := &v1alpha1.NVMeVolumeAttachmentList{}
	if err := f.client.List(ctx, ours); err != nil {
		return err
	}
	for _, o := range ours.Items {
		fmt.Fprintf(out, "NVMeVolumeAttachment %s host=%s deleted=%v: %s\n", o.Name, o.Spec.NodeID, o.DeletionTimestamp, Conditions(o.Status.Conditions))
	}
	return nil
}

func (f *Flow) printPods(ctx context.Context, out io.Writer) error {
	pods := &corev1.PodList{}
	if err := f.client.List(ctx, pods); err != nil {
		return err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		restarts := int32(0)
		for _, status := range pod.Status.ContainerStatuses {
			restarts += status.RestartCount
		}
		fmt.Fprintf(out, "%s/%s on %s, %d restarts: %s\n", pod.Namespace, pod.Name, pod.Spec.NodeName, restarts, podState(pod))
	}
	return nil
}

func (f *Flow) printEvents(ctx context.Context, out io.Writer) error {
	list, err := f.set.CoreV1().Events("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	events := slices.DeleteFunc(list.Items, func(e corev1.Event) bool { return e.InvolvedObject.Kind == "Node" })
	slices.SortFunc(events, func(a, b corev1.Event) int { return eventTime(a).Compare(eventTime(b)) })
	for _, event := range events[max(0, len(events)-eventCount):] {
		fmt.Fprintf(out, "%s %s %s/%s %s: %s\n", eventTime(event).Format(time.TimeOnly), event.Type, event.InvolvedObject.Kind, event.InvolvedObject.Name, event.Reason, event.Message)
	}
	return nil
}

func eventTime(event corev1.Event) time.Time {
	if !event.LastTimestamp.IsZero() {
		return event.LastTimestamp.Time
	}
	if !event.EventTime.IsZero() {
		return event.EventTime.Time
	}
	return event.CreationTimestamp.Time
}

func (f *Flow) printLogs(ctx context.Context, out io.Writer) error {
	pods, err := f.set.CoreV1().Pods(v1alpha1.DefaultNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	tail := int64(logLines)
	for _, pod := range pods.Items {
		for _, container := range pod.Spec.Containers {
			fmt.Fprintf(out, "%s/%s:\n", pod.Name, container.Name)
			text, err := f.set.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container.Name, TailLines: &tail}).DoRaw(ctx)
			if err != nil {
				fmt.Fprintln(out, "  not available:", err)
				continue
			}
			for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
				fmt.Fprintln(out, "  "+line)
			}
		}
	}
	return nil
}
