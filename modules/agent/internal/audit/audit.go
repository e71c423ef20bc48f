// Package audit words the comparison of what a node has with what objects ask
// for, as a condition.
package audit

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Condition is a condition of this type that names what no object asks for, and
// what objects ask for and is not there.
func Condition(kind string, strangers, missing []string) metav1.Condition {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAuditClean}
	if len(strangers) > 0 {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonStrangersFound, "no object asks for, and left alone: "+some(strangers)
	}
	if len(missing) > 0 {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonPartsMissing, strings.TrimSuffix("missing: "+some(missing)+"; "+c.Message, "; ")
	}
	return c
}

// some names the first few.
func some(names []string) string {
	const few = 5
	if len(names) <= few {
		return strings.Join(names, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(names[:few], "; "), len(names)-few)
}
