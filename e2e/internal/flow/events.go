package flow

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// eventTimeout is how long an expected Event may take: kubelet tells of a failed
// mount only after it tried.
const eventTimeout = 3 * time.Minute

// WaitEvent waits until an Event about an object of the flow's namespace has
// that reason and a message with all of the parts, and returns the message.
func (f *Flow) WaitEvent(ctx context.Context, kind, name, reason string, parts ...string) (message string, err error) {
	what := fmt.Sprintf("Event %s about %s %s says %q", reason, kind, name, parts)
	selector := metav1.ListOptions{FieldSelector: "involvedObject.kind=" + kind + ",involvedObject.name=" + name}
	err = Eventually(ctx, what, eventTimeout, func(ctx context.Context) (string, error) {
		events, err := f.set.CoreV1().Events(f.Namespace).List(ctx, selector)
		if err != nil {
			return "", err
		}
		var seen []string
		for _, event := range events.Items {
			if event.Reason == reason && containsAll(event.Message, parts) {
				message = event.Message
				return "", nil
			}
			seen = append(seen, describeEvent(event))
		}
		return "Events so far: " + strings.Join(seen, "; "), nil
	})
	return message, err
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

func describeEvent(event corev1.Event) string { return event.Reason + ": " + event.Message }
