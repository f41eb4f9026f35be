package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

const (
	maxJSONBytes = 1 << 20 // as of a gRPC message
	// A request within its bounds has fewer; empty ones would cost a hundred
	// bytes for every two.
	maxJSONObjects = 2 + maxDescriptors*(4+maxEntries)
	maxDetailBytes = 512
	// Clients of HTTP send no deadline.
	jsonTimeout = 5 * time.Second
)

// ServeHTTP answers POST /json, the RateLimitService for those who have no
// gRPC: a RateLimitRequest in, a RateLimitResponse out, both as JSON. The code
// is 200 for an allowed request and 429 for a denied one, which has the headers
// that Envoy would add; else the body is a problem of RFC 9457.
func (s *RLS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req, code, err := readJSON(w, r)
	if err != nil {
		respondProblem(w, code, err.Error())
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), jsonTimeout)
	defer cancel()
	resp, err := s.shouldRateLimit(ctx, req)
	if err != nil {
		failed := status.Convert(err)
		respondProblem(w, httpCode(failed.Code()), failed.Message())
		return
	}
	body, err := protojson.Marshal(resp)
	if err != nil {
		respondProblem(w, http.StatusInternalServerError, "internal error")
		return
	}
	code = http.StatusOK
	if resp.GetOverallCode() == rls.RateLimitResponse_OVER_LIMIT {
		code = http.StatusTooManyRequests
	}
	for _, h := range resp.GetResponseHeadersToAdd() {
		if h.GetKey() != "content-type" { // that of the raw_body
			w.Header().Set(h.GetKey(), h.GetValue())
		}
	}
	respondJSON(w, code, "application/json", body)
}

// readJSON reads the request, or says with which code to refuse it and why.
func readJSON(w http.ResponseWriter, r *http.Request) (req *rateLimitRequest, code int, err error) {
	if err := checkMediaType(r.Header); err != nil {
		return nil, http.StatusUnsupportedMediaType, err
	}
	tooLarge := fmt.Errorf("the body has more than %d bytes", maxJSONBytes)
	if r.ContentLength > maxJSONBytes {
		w.Header().Set("Connection", "close")
		return nil, http.StatusRequestEntityTooLarge, tooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxJSONBytes))
	switch over := (*http.MaxBytesError)(nil); {
	case errors.As(err, &over):
		return nil, http.StatusRequestEntityTooLarge, tooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, http.StatusRequestTimeout, errors.New("the body did not come in time")
	case err != nil:
		return nil, http.StatusBadRequest, errors.New("the body ends too early")
	}
	if req, err = decodeJSON(body); err != nil {
		return nil, http.StatusBadRequest, err
	}
	return req, 0, nil
}

// checkMediaType refuses what says that it is something else. Without a type
// it is JSON, and so is what curl --data says of anything.
func checkMediaType(h http.Header) error {
	if encoding := h.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return errors.New("the body is encoded: send it without a Content-Encoding")
	}
	given := h.Get("Content-Type")
	if given == "" {
		return nil
	}
	media, _, err := mime.ParseMediaType(given)
	if err == nil && (media == "application/json" || media == "text/json" || strings.HasSuffix(media, "+json") ||
		media == "application/x-www-form-urlencoded") {
		return nil
	}
	return errors.New("the body is no JSON by its Content-Type: send application/json")
}

// decodeJSON takes the JSON to protobuf, so that there is one decoder.
func decodeJSON(body []byte) (*rateLimitRequest, error) {
	if objects := countObjects(body); objects > maxJSONObjects {
		return nil, fmt.Errorf("more than %d objects: more than %d descriptors, or one with more than %d entries", maxJSONObjects, maxDescriptors, maxEntries)
	}
	var parsed rls.RateLimitRequest
	if err := protojson.Unmarshal(body, &parsed); err != nil {
		// It begins with "proto:" and one of two kinds of space.
		return nil, errors.New(strings.TrimLeft(strings.TrimPrefix(err.Error(), "proto:"), " \u00a0"))
	}
	message, err := proto.Marshal(&parsed)
	if err != nil {
		return nil, errMalformed
	}
	req := new(rateLimitRequest)
	req.fault = req.decode(message)
	return req, nil
}

// countObjects counts the objects and arrays that begin in a JSON text.
func countObjects(text []byte) (n int) {
	inString := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			inString = !inString
		case c == '\\' && inString:
			i++
		case (c == '{' || c == '[') && !inString:
			n++
		}
	}
	return n
}

// respondProblem says why there is no answer. What it quotes of the client is
// cut and escaped.
func respondProblem(w http.ResponseWriter, code int, detail string) {
	if len(detail) > maxDetailBytes {
		detail = detail[:maxDetailBytes] + "…"
	}
	body, err := json.Marshal(struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{http.StatusText(code), code, strings.ToValidUTF8(detail, "\ufffd")})
	if err != nil {
		code, body = http.StatusInternalServerError, []byte("{}")
	}
	respondJSON(w, code, "application/problem+json", body)
}

func respondJSON(w http.ResponseWriter, code int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(append(body, '\n')) //nolint:gosec // JSON, labelled as such
}
