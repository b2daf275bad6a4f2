package gather

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// ReviewPermissions reviews permissions of ServiceAccounts and records the results in the facts. It reviews all
// namespaces first: access there implies access in each namespace.
func (r *Reader) ReviewPermissions(ctx context.Context, cluster *facts.Facts, permissions []facts.Permission) {
	reviewed := map[facts.Permission]bool{}
	isAllowed := func(permission facts.Permission) (bool, error) {
		if allowed, ok := reviewed[permission]; ok {
			return allowed, nil
		}
		allowed, err := r.review(ctx, permission)
		reviewed[permission] = allowed
		return allowed, err
	}
	cluster.Allowed = map[facts.Permission]bool{}
	for _, permission := range permissions {
		everywhere := permission
		everywhere.Namespace = ""
		allowed, err := isAllowed(everywhere)
		if err == nil && !allowed {
			allowed, err = isAllowed(permission)
		}
		if err != nil {
			recordError(cluster, facts.Reviews, err)
			return
		}
		cluster.Allowed[permission] = allowed
	}
}

// review sends one SubjectAccessReview. The groups are those of every ServiceAccount (k8s.io/apiserver,
// serviceaccount.UserInfo).
func (r *Reader) review(ctx context.Context, permission facts.Permission) (bool, error) {
	account := permission.Account
	resource, subresource, _ := strings.Cut(permission.Resource, "/")
	body, err := json.Marshal(authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:" + account.Namespace + ":" + account.Name,
		Groups: []string{
			"system:serviceaccounts", "system:serviceaccounts:" + account.Namespace,
			"system:authenticated",
		},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: permission.Namespace, Name: permission.Name, Verb: permission.Verb, Group: permission.Group,
			Resource: resource, Subresource: subresource,
		},
	}})
	if err != nil {
		return false, fmt.Errorf("SubjectAccessReview: %w", err)
	}
	var review authorizationv1.SubjectAccessReview
	err = r.get(ctx, kube.Request{
		Verb: http.MethodPost, Path: []string{"apis", "authorization.k8s.io", "v1", "subjectaccessreviews"}, Body: body,
	}, &review)
	return review.Status.Allowed, err
}
