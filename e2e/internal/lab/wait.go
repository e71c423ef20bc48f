package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/distort-io/distort/e2e/internal/guestexec"
	"github.com/distort-io/distort/e2e/internal/guestspec"
	"github.com/distort-io/distort/e2e/internal/layout"
	"github.com/distort-io/distort/e2e/internal/process"
)

const (
	guestPoll = 250 * time.Millisecond
	// guestProbe bounds one question to a guest that may not answer yet.
	guestProbe = 5 * time.Second
	// nodesTimeout bounds the time from guests set up to nodes Ready.
	nodesTimeout = 3 * time.Minute
	nodesPoll    = 500 * time.Millisecond
)

// waitGuest waits until the guest says that it is set up, or that it is not.
func (l *Lab) waitGuest(ctx context.Context, name string, id process.Identity) error {
	ctx, cancel := context.WithTimeout(ctx, guestTimeout)
	defer cancel()
	client, err := l.Guest(name)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(guestPoll)
	defer ticker.Stop()
	for {
		ready, err := askGuest(ctx, client)
		if ready {
			return nil
		}
		if err != nil {
			return fmt.Errorf("guest %s: %w (console: %s)", name, err, l.Console(name))
		}
		if !l.table.Running(id) {
			return fmt.Errorf("guest %s: its emulator ended (log: %s, console: %s)", name, l.LogDir(), l.Console(name))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("guest %s is not set up: %w (console: %s)", name, ctx.Err(), l.Console(name))
		case <-ticker.C:
		}
	}
}

// askGuest says whether set-up has succeeded; an error means it has failed.
// Neither means that it goes on.
func askGuest(ctx context.Context, client *guestexec.Client) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, guestProbe)
	defer cancel()
	out, err := client.Output(ctx, "ls", guestspec.RunDir)
	if err != nil {
		// Not reachable yet.
		return false, nil
	}
	files := strings.Fields(out)
	for _, file := range files {
		switch file {
		case "ready":
			return true, nil
		case "failed":
			reason, err := client.Output(ctx, "cat", guestspec.RunDir+"/failed")
			if err != nil {
				return false, err
			}
			return false, errors.New("set-up failed: " + reason)
		}
	}
	return false, nil
}

// Config returns the client configuration of the running lab.
func (l *Lab) Config() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", l.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotUp, err)
	}
	// The lab has one user; a limit would only hide which wait timed out.
	config.QPS = -1
	return config, nil
}

// waitNodes waits until every guest is a Ready node.
func (l *Lab) waitNodes(ctx context.Context, clock *clock) error {
	ctx, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	config, err := l.Config()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("wait for nodes: %w", err)
	}
	ticker := time.NewTicker(nodesPoll)
	defer ticker.Stop()
	told := map[string]bool{}
	for {
		list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err == nil {
			for _, node := range list.Items {
				if nodeReady(node) && !told[node.Name] {
					told[node.Name] = true
					clock.say("node %s is Ready (%s, %s)", node.Name, node.Status.NodeInfo.KubeletVersion, node.Status.NodeInfo.KernelVersion)
				}
			}
			if len(told) == len(layout.Nodes()) {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d nodes are Ready: %w (look at: lab logs <node>/kubelet)", len(told), len(layout.Nodes()), ctx.Err())
		case <-ticker.C:
		}
	}
}

func nodeReady(node corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
