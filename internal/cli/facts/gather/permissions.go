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

// Prepare reads what an installation depends on: the version of the API server and the permissions of the user.
func (r *Reader) Prepare(ctx context.Context, cluster *facts.Facts, permissions []facts.Permission) {
	var version struct {
		GitVersion string `json:"gitVersion"`
	}
	// A user without access to it learns nothing about the version.
	if err := r.get(ctx, kube.Request{Path: []string{"version"}}, &version); err == nil {
		cluster.ServerVersion = version.GitVersion
	}
	cluster.UserAllowed = map[facts.Permission]bool{}
	for _, permission := range permissions {
		allowed, err := r.selfReview(ctx, permission)
		if err != nil {
			recordError(cluster, facts.Reviews, err)
			return
		}
		cluster.UserAllowed[permission] = allowed
	}
}

// selfReview sends one SelfSubjectAccessReview.
func (r *Reader) selfReview(ctx context.Context, permission facts.Permission) (bool, error) {
	body, err := json.Marshal(authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: permission.Namespace, Verb: permission.Verb, Group: permission.Group, Resource: permission.Resource,
		},
	}})
	if err != nil {
		return false, fmt.Errorf("SelfSubjectAccessReview: %w", err)
	}
	var review authorizationv1.SelfSubjectAccessReview
	err = r.get(ctx, kube.Request{
		Verb: http.MethodPost, Path: []string{"apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews"}, Body: body,
	}, &review)
	return review.Status.Allowed, err
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
