package http

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

const (
	// reviewTTL is how long a review's outcome is believed: a revoked token
	// works that much longer.
	reviewTTL = time.Minute
	// maxReviews bounds the cache, which callers fill.
	maxReviews = 1024
	// reviewTimeout bounds one question to the API server.
	reviewTimeout       = 10 * time.Second
	maxReviewAnswer     = 1 << 20
	serviceAccountUser  = "system:serviceaccount:"
	tokenReviewPath     = "/apis/authentication.k8s.io/v1/tokenreviews"
	inClusterServer     = "https://kubernetes.default.svc"
	inClusterCredential = "/var/run/secrets/kubernetes.io/serviceaccount/token"
	jwtDots             = 2
)

// TokenReviewOptions are what a TokenReview is made of.
type TokenReviewOptions struct {
	// Audience is ours: a token for another one is refused. Required.
	Audience string
	// Allow goes from ServiceAccount as namespace/name to role; empty lets nobody in.
	Allow map[string]Role
	// Server is the API server's URL; the cluster's own when "".
	Server string
	// TokenFile holds our own ServiceAccount token, read for each question; the
	// mounted one when "".
	TokenFile string
	// CAFile holds the authority of the API server. It is read again when it
	// changes. Required.
	CAFile string
	Log    *slog.Logger
	// Registry gets a gauge that tells whether CAFile is in force; nil for none.
	Registry prometheus.Registerer
}

// TokenReview knows Kubernetes ServiceAccounts by asking the API server about
// their tokens. When it cannot be asked, callers are told to come back.
type TokenReview struct {
	o TokenReviewOptions
	// client trusts the API server.
	client *watchedFiles[*http.Client]

	mu      sync.Mutex
	reviews map[[sha256.Size]byte]review
}

// review is the outcome for one token: user is "" when it is no good.
type review struct {
	user  string
	until time.Time
}

// NewTokenReview returns the authenticator; nothing is asked yet. It fails when
// the authority cannot be read now.
func NewTokenReview(o TokenReviewOptions) (*TokenReview, error) {
	if o.Audience == "" || o.Log == nil {
		return nil, errors.New("token review: Audience and Log are required")
	}
	if o.Server == "" {
		o.Server = inClusterServer
	}
	if o.TokenFile == "" {
		o.TokenFile = inClusterCredential
	}
	client := &watchedFiles[*http.Client]{
		paths: []string{o.CAFile}, parse: trusting,
		fault: func(err error) {
			o.Log.Warn("authority of the API server not taken over", "path", o.CAFile, "error", err)
		},
	}
	if _, _, _, err := client.get(); err != nil {
		return nil, fmt.Errorf("token review: %w", err)
	}
	if err := client.register(o.Registry, "tokenReviewCA"); err != nil {
		return nil, err
	}
	return &TokenReview{o: o, client: client, reviews: map[[sha256.Size]byte]review{}}, nil
}

// trusting makes a client that trusts servers with certificates of an authority.
func trusting(contents [][]byte) (*http.Client, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(contents[0]) {
		return nil, errors.New("the file holds no certificate")
	}
	// Questions are rare and cached: a kept connection would only be a goroutine without an owner.
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true,
	}}, nil
}

// Authenticate reviews c.Token. What is not shaped like a JWT is never sent: it
// may be a secret of another system.
func (t *TokenReview) Authenticate(ctx context.Context, c Credentials) (Principal, bool, error) {
	if strings.Count(c.Token, ".") != jwtDots {
		return Principal{}, false, nil
	}
	user, err := t.userOf(ctx, c.Token)
	if err != nil {
		t.o.Log.WarnContext(ctx, "token review failed", "error", err)
		return Principal{}, false, &instance.Error{
			Reason: instance.ReasonCredentialsUnavailable, Op: "review token", Detail: "the Kubernetes API server cannot be asked now",
		}
	}
	if user == "" {
		return Principal{}, false, nil
	}
	name, ok := strings.CutPrefix(user, serviceAccountUser)
	name = strings.Replace(name, ":", "/", 1)
	role, allowed := t.o.Allow[name]
	if !ok || !allowed {
		return Principal{}, false, instance.Errorf(instance.ReasonForbidden, "this ServiceAccount is not allowed here")
	}
	return Principal{Name: name, Role: role}, true, nil
}

// userOf returns the token's user, "" when the token is no good.
func (t *TokenReview) userOf(ctx context.Context, token string) (string, error) {
	key := sha256.Sum256([]byte(token))
	t.mu.Lock()
	known, ok := t.reviews[key]
	t.mu.Unlock()
	if ok && time.Now().Before(known.until) {
		return known.user, nil
	}
	user, err := t.ask(ctx, token)
	if err != nil {
		return "", err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.reviews) >= maxReviews {
		clear(t.reviews)
	}
	t.reviews[key] = review{user: user, until: time.Now().Add(reviewTTL)}
	return user, nil
}

type tokenReviewBody struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Spec       tokenReviewSpec   `json:"spec"`
	Status     tokenReviewStatus `json:"status,omitzero"`
}

type tokenReviewSpec struct {
	Token     string   `json:"token"`
	Audiences []string `json:"audiences"`
}

type tokenReviewStatus struct {
	Authenticated bool     `json:"authenticated"`
	Audiences     []string `json:"audiences"`
	User          struct {
		Username string `json:"username"`
	} `json:"user"`
}

// ask puts one question. Its errors hold neither of the two tokens.
func (t *TokenReview) ask(ctx context.Context, token string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	body, err := json.Marshal(tokenReviewBody{
		APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview",
		Spec: tokenReviewSpec{Token: token, Audiences: []string{t.o.Audience}},
	})
	if err != nil {
		return "", fmt.Errorf("encode review: %T", err)
	}
	own, err := os.ReadFile(t.o.TokenFile)
	if err != nil {
		return "", fmt.Errorf("read own token: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.o.Server+tokenReviewPath, bytes.NewReader(body))
	if err != nil {
		return "", fmt.Errorf("build review: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(own)))
	req.Header.Set("Content-Type", "application/json")
	client, _, _ := t.client.current()
	res, err := client.Do(req)
	if err != nil {
		return "", fmt.Errorf("ask API server: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusCreated {
		return "", fmt.Errorf("ask API server: status %d", res.StatusCode)
	}
	var answer tokenReviewBody
	if err := json.NewDecoder(io.LimitReader(res.Body, maxReviewAnswer)).Decode(&answer); err != nil {
		return "", fmt.Errorf("read review: %T", err)
	}
	if !answer.Status.Authenticated || !slices.Contains(answer.Status.Audiences, t.o.Audience) {
		return "", nil
	}
	return answer.Status.User.Username, nil
}
