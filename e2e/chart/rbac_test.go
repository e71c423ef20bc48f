package chart

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// components are the service accounts, without their common prefix.
var components = []string{"manager", "agent", "csi-controller", "csi-node"}

// rules are all that roles grant to a component, by what is rendered.
func rules(t *testing.T, component string) []rbacv1.PolicyRule {
	t.Helper()
	all := render(t)
	var out []rbacv1.PolicyRule
	for _, r := range typed[rbacv1.ClusterRole](t, all, "ClusterRole") {
		if r.Name == "distort-"+component {
			out = append(out, r.Rules...)
		}
	}
	for _, r := range typed[rbacv1.Role](t, all, "Role") {
		if r.Name == "distort-"+component {
			out = append(out, r.Rules...)
		}
	}
	if len(out) == 0 {
		t.Fatalf("no role of %s", component)
	}
	return out
}

// TestNoRuleIsWide: nothing is granted by wildcard, nothing that leads to more
// rights, and no secret.
func TestNoRuleIsWide(t *testing.T) {
	for _, component := range components {
		for _, rule := range rules(t, component) {
			for _, words := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs} {
				for _, word := range words {
					if strings.Contains(word, "*") {
						t.Errorf("%s: a wildcard in %+v", component, rule)
					}
				}
			}
			for _, verb := range []string{"deletecollection", "escalate", "bind", "impersonate"} {
				if slices.Contains(rule.Verbs, verb) {
					t.Errorf("%s: %s in %+v", component, verb, rule)
				}
			}
			for _, resource := range []string{"secrets", "serviceaccounts/token", "pods/exec", "nodes/proxy"} {
				if slices.Contains(rule.Resources, resource) {
					t.Errorf("%s: %s in %+v", component, resource, rule)
				}
			}
			// Heartbeats of agents and elections share the namespace.
			changes := slices.Contains(rule.Verbs, "update") || slices.Contains(rule.Verbs, "patch") || slices.Contains(rule.Verbs, "delete")
			if slices.Contains(rule.Resources, "leases") && changes && len(rule.ResourceNames) == 0 && component != "agent" {
				t.Errorf("%s may change every Lease: %+v", component, rule)
			}
		}
	}
}

// TestEveryWriteOfANodeHasAPolicy: a DaemonSet's account is given no right to write
// that no policy holds to its own node.
func TestEveryWriteOfANodeHasAPolicy(t *testing.T) {
	policies := typed[admissionregistrationv1.ValidatingAdmissionPolicy](t, render(t), "ValidatingAdmissionPolicy")
	bindings := typed[admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, render(t), "ValidatingAdmissionPolicyBinding")
	held := map[string]bool{}
	for _, p := range policies {
		bound := slices.ContainsFunc(bindings, func(b admissionregistrationv1.ValidatingAdmissionPolicyBinding) bool {
			return b.Spec.PolicyName == p.Name && slices.Equal(b.Spec.ValidationActions, []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny})
		})
		if !bound || *p.Spec.FailurePolicy != admissionregistrationv1.Fail {
			t.Errorf("policy %s denies nothing when it cannot be bound or evaluated", p.Name)
		}
		for _, m := range p.Spec.MatchConditions {
			for _, r := range p.Spec.MatchConstraints.ResourceRules {
				for _, resource := range r.Resources {
					held[m.Expression+" "+r.APIGroups[0]+"/"+resource] = len(r.Operations) == 3
				}
			}
		}
	}
	for _, component := range []string{"agent", "csi-node"} {
		user := fmt.Sprintf("request.userInfo.username == 'system:serviceaccount:%s:distort-%s'", namespace, component)
		for _, rule := range rules(t, component) {
			if !slices.ContainsFunc(rule.Verbs, func(verb string) bool { return !slices.Contains([]string{"get", "list", "watch"}, verb) }) {
				continue
			}
			for _, resource := range rule.Resources {
				if !held[user+" "+rule.APIGroups[0]+"/"+resource] {
					t.Errorf("%s may %v %s/%s on every node: no policy holds it to its own", component, rule.Verbs, rule.APIGroups[0], resource)
				}
			}
		}
	}
}

// TestRights asks the API server what each service account may do: what it needs,
// and what would be a way out of its pod (known faults SE10, SE11).
func TestRights(t *testing.T) {
	installed(t)
	const ours = "storage.distort.io"
	for _, c := range []struct {
		component, verb, group, resource, namespace, name string
		allowed                                           bool
	}{
		{"manager", "patch", ours, "nvmepartitions", namespace, "", true},
		{"manager", "patch", ours, "volumes", "", "", true},
		{"manager", "create", ours, "volumes", "", "", false},
		{"manager", "patch", ours, "storagenodes", "", "", false},
		{"manager", "delete", ours, "nvmedevices", "", "", true},
		{"manager", "update", "coordination.k8s.io", "leases", namespace, "distort-manager", true},
		{"manager", "create", "events.k8s.io", "events", "default", "", true},
		{"manager", "update", "coordination.k8s.io", "leases", namespace, "distort-agent-a", false},
		{"manager", "watch", ours, "nvmevolumeattachments", namespace, "", true},
		{"manager", "patch", ours, "nvmevolumeattachments", namespace, "", false},
		{"manager", "delete", ours, "nvmepartitions", namespace, "", false},
		{"manager", "create", ours, "nvmepartitions", namespace, "", false},
		{"agent", "create", ours, "nvmedevices", "", "", true},
		{"agent", "watch", ours, "nvmepartitions", namespace, "", true},
		{"agent", "patch", "coordination.k8s.io", "leases", namespace, "distort-agent-a", true},
		{"agent", "delete", ours, "nvmedevices", "", "", false},
		{"agent", "delete", ours, "nvmepartitions", namespace, "", false},
		{"agent", "create", ours, "nvmevolumeattachments", namespace, "", false},
		{"agent", "list", ours, "nvmepartitions", "default", "", false},
		{"agent", "patch", ours, "nvmedeviceclaims", namespace, "", false},
		{"agent", "watch", ours, "volumes", "", "", true},
		{"agent", "patch", ours, "volumes", "", "", true},
		{"agent", "list", ours, "storagenodes", "", "", true},
		{"agent", "list", "", "nodes", "", "", true},
		{"agent", "create", ours, "volumes", "", "", false},
		{"agent", "delete", ours, "volumes", "", "", false},
		{"agent", "patch", ours, "storagenodes", "", "", false},
		{"agent", "get", "", "nodes", "", "", false},
		{"agent", "list", "", "pods", "", "", false},
		{"csi-controller", "create", ours, "nvmepartitions", namespace, "", true},
		{"csi-controller", "create", ours, "volumes", "", "", true},
		{"csi-controller", "delete", ours, "volumes", "", "", true},
		{"csi-controller", "patch", ours, "storagenodes", "", "", false},
		{"csi-node", "get", ours, "volumes", "", "", false},
		{"csi-controller", "update", "coordination.k8s.io", "leases", namespace, "external-attacher-leader-storage-distort-io", true},
		{"csi-controller", "get", "", "pods", namespace, "", true},
		{"csi-controller", "patch", ours, "nvmevolumeattachments", namespace, "", false},
		{"csi-controller", "update", "coordination.k8s.io", "leases", namespace, "distort-agent-a", false},
		{"csi-controller", "list", "", "pods", "", "", false},
		{"csi-node", "get", ours, "nvmevolumeattachments", namespace, "", true},
		{"csi-node", "get", "", "nodes", "", "", true},
		{"csi-node", "list", ours, "nvmevolumeattachments", namespace, "", false},
		{"csi-node", "patch", ours, "nvmevolumeattachments", namespace, "", false},
		{"csi-node", "list", "", "nodes", "", "", false},
	} {
		ask(t, c.component, authorizationv1.ResourceAttributes{
			Verb: c.verb, Group: c.group, Resource: c.resource, Namespace: c.namespace, Name: c.name,
		}, c.allowed)
	}
	for _, component := range components {
		for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete"} {
			ask(t, component, authorizationv1.ResourceAttributes{Verb: verb, Resource: "secrets", Namespace: namespace}, false)
			ask(t, component, authorizationv1.ResourceAttributes{Verb: verb, Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}, false)
			ask(t, component, authorizationv1.ResourceAttributes{Verb: verb, Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}, false)
		}
		for _, verb := range []string{"create", "update", "patch", "delete"} {
			ask(t, component, authorizationv1.ResourceAttributes{Verb: verb, Resource: "nodes"}, false)
			ask(t, component, authorizationv1.ResourceAttributes{Verb: verb, Resource: "nodes", Subresource: "status"}, false)
			ask(t, component, authorizationv1.ResourceAttributes{Verb: verb, Resource: "pods", Namespace: namespace}, false)
			ask(t, component, authorizationv1.ResourceAttributes{Verb: verb, Resource: "serviceaccounts", Subresource: "token", Namespace: namespace}, false)
		}
	}
}

func ask(t *testing.T, component string, what authorizationv1.ResourceAttributes, want bool) {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               fmt.Sprintf("system:serviceaccount:%s:distort-%s", namespace, component),
		Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
		ResourceAttributes: &what,
	}}
	if err := here.admin.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	if review.Status.Allowed != want {
		t.Errorf("%s may %s %s.%s/%s (namespace %q, name %q): %v, want %v", component, what.Verb, what.Resource, what.Group, what.Subresource,
			what.Namespace, what.Name, review.Status.Allowed, want)
	}
}
