import { render } from "preact";
import { App } from "./shell/app";
import "uplot/dist/uPlot.min.css";
import "./shell/tokens.css";
import "./shell/shell.css";
import "./ui/ui.css";
import "./views/read.css";
import "./views/incidents.css";
import "./views/learn.css";
import "./views/write.css";
import "./views/sessions.css";

render(<App />, document.getElementById("page")!);
