/** Sessions. */
export function SessionsView() {
  return <h1>Sessions</h1>;
}
