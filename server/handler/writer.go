package handler

import "net/http"

// writer is a response that the handler writes itself, such as an event stream or a file. It
// implements the response types of all operations with such responses.
type writer func(w http.ResponseWriter) error

func (f writer) VisitBackupResponse(w http.ResponseWriter) error           { return f(w) }
func (f writer) VisitCompleteResponse(w http.ResponseWriter) error         { return f(w) }
func (f writer) VisitCreateCompletionResponse(w http.ResponseWriter) error { return f(w) }
func (f writer) VisitExportLogsResponse(w http.ResponseWriter) error       { return f(w) }
func (f writer) VisitFillMiddleResponse(w http.ResponseWriter) error       { return f(w) }
func (f writer) VisitGetSnapshotResponse(w http.ResponseWriter) error      { return f(w) }
func (f writer) VisitGetTextResponse(w http.ResponseWriter) error          { return f(w) }
func (f writer) VisitHomeResponse(w http.ResponseWriter) error             { return f(w) }
func (f writer) VisitListSessionsResponse(w http.ResponseWriter) error     { return f(w) }
func (f writer) VisitLlamaCompletionResponse(w http.ResponseWriter) error  { return f(w) }
func (f writer) VisitLlamaInfillResponse(w http.ResponseWriter) error      { return f(w) }
func (f writer) VisitMetricsResponse(w http.ResponseWriter) error          { return f(w) }
func (f writer) VisitPageScriptResponse(w http.ResponseWriter) error       { return f(w) }
func (f writer) VisitPageStyleResponse(w http.ResponseWriter) error        { return f(w) }
func (f writer) VisitScoreResponse(w http.ResponseWriter) error            { return f(w) }
func (f writer) VisitScoreTextsResponse(w http.ResponseWriter) error       { return f(w) }
func (f writer) VisitTokenizeResponse(w http.ResponseWriter) error         { return f(w) }
func (f writer) VisitWatchSessionResponse(w http.ResponseWriter) error     { return f(w) }
