package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rlsd/rlsd/internal/limiter"
	"github.com/rlsd/rlsd/internal/store"
)

// A fieldError says what is wrong with a field of a request.
type fieldError struct{ field, problem string }

func (e *fieldError) Error() string { return e.field + ": " + e.problem }

func badField(field, format string, args ...any) error {
	return &fieldError{field, fmt.Sprintf(format, args...)}
}

// within puts the path of the message in front of the field in which the error
// is.
func within(path string, err error) error {
	if e := (*fieldError)(nil); errors.As(err, &e) {
		return &fieldError{path + "." + e.field, e.problem}
	}
	return err
}

// toStatus is the one place that knows gRPC codes. Callers see what to mend of
// a request; of a store, only that it did not answer.
func toStatus(err error) error {
	var field *fieldError
	switch {
	case errors.As(err, &field):
		s := status.New(codes.InvalidArgument, err.Error())
		violation := &errdetails.BadRequest_FieldViolation{Field: field.field, Description: field.problem}
		if detailed, err := s.WithDetails(&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{violation}}); err == nil {
			s = detailed
		}
		return s.Err()
	case errors.Is(err, errMalformed), errors.Is(err, limiter.ErrOverride):
		return status.Error(codes.InvalidArgument, err.Error())
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, "the caller went away")
	case errors.Is(err, store.ErrFull):
		return status.Error(codes.Unavailable, "the store has no room for another bucket")
	case errors.Is(err, store.ErrUnavailable):
		return status.Error(codes.Unavailable, "the store did not answer in time")
	default:
		return status.Error(codes.Internal, "internal error")
	}
}

// httpCode is what a code of toStatus is to clients of HTTP.
func httpCode(c codes.Code) int {
	switch c {
	case codes.InvalidArgument:
		return http.StatusBadRequest
	case codes.Unavailable, codes.Canceled:
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}
