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
func (r *Reader) Ask(ctx context.Context, cluster *facts.Facts, questions []facts.Question) {
	answers := map[facts.Question]bool{}
	ask := func(question facts.Question) (bool, error) {
		if allowed, is := answers[question]; is {
			return allowed, nil
		}
		allowed, err := r.review(ctx, question)
		answers[question] = allowed
		return allowed, err
	}
	cluster.Allowed = map[facts.Question]bool{}
	for _, question := range questions {
		everywhere := question
		everywhere.Namespace = ""
		allowed, err := ask(everywhere)
		if err == nil && !allowed {
			allowed, err = ask(question)
		}
		if err != nil {
			note(cluster, facts.Reviews, err)
			return
		}
		cluster.Allowed[question] = allowed
	}
}

// review sends one SubjectAccessReview. The groups are those of every ServiceAccount (k8s.io/apiserver,
// serviceaccount.UserInfo).
func (r *Reader) review(ctx context.Context, question facts.Question) (bool, error) {
	account := question.Account
	resource, subresource, _ := strings.Cut(question.Resource, "/")
	asked, err := json.Marshal(authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   "system:serviceaccount:" + account.Namespace + ":" + account.Name,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + account.Namespace, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: question.Namespace, Name: question.Name, Verb: question.Verb, Group: question.Group, Resource: resource, Subresource: subresource,
		},
	}})
	if err != nil {
		return false, fmt.Errorf("SubjectAccessReview: %w", err)
	}
	var answer authorizationv1.SubjectAccessReview
	err = r.get(ctx, kube.Request{
		Verb: http.MethodPost, Path: []string{"apis", "authorization.k8s.io", "v1", "subjectaccessreviews"}, Body: asked,
	}, &answer)
	return answer.Status.Allowed, err
}
