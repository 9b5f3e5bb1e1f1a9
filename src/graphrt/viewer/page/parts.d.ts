// The types that the modules of the page share; the documents from Python are in types.d.ts.

// -- elements -----------------------------------------------------------------------------------------------------------

type Child = Node | string | number | null | undefined | false;
/** Of the properties, `onclick` and other listeners are added, and others are attributes; `null` and `false` leave one out. */
type MakeElement = <T extends keyof HTMLElementTagNameMap>(
  tag: T, props?: Record<string, any>, ...children: (Child | Child[])[]) => HTMLElementTagNameMap[T];
type MakeSvg = <T extends keyof SVGElementTagNameMap>(
  tag: T, props?: Record<string, any>, ...children: (Child | Child[])[]) => SVGElementTagNameMap[T];
interface ListOptions {
  label: string;                            // accessible name of the list
  height: number;                           // of a row, in pixels
  row(index: number): (Node | string)[];
  rowClass?(index: number): string;
  onselect(index: number, by: "key" | "click"): void;
  onopen?(index: number): void;             // Enter, or a double click
  onfold?(index: number, open: boolean): boolean;   // left and right arrow; whether that did something
}
interface Command {
  key: string;                              // a value of `KeyboardEvent.key`
  does: string;                             // for the help
  run(event: KeyboardEvent): void;
}

// -- values and forms ---------------------------------------------------------------------------------------------------

type Load = (token: string) => Promise<ValueDoc>;
interface TreeOptions { load?: Load; label?: string }
interface Tree { options: TreeOptions; budget: { lines: number }; depth: number }
type Container = Record<string, any> | any[];
type Schema = Record<string, any>;
interface Field { element: HTMLElement; read(): unknown }    // `read` throws an Error with the reason
interface AnswerForm { schema: unknown; label: string; initial?: unknown; send(value: unknown): Promise<void> }
interface Ask { label: string; schema: Schema; root: Schema; initial: unknown; required: boolean; depth: number }

// -- the graph ------------------------------------------------------------------------------------------------------------

interface Point { x: number; y: number }
interface Box {
  path: string[];                           // the names of the node and its outer nodes, outermost first
  key: string;                              // the path as one string
  name: string;
  text: string;                             // the name as it is drawn
  kind: "node" | "graph" | "virtual";
  x: number; y: number; width: number; height: number;    // from the upper left corner
  inner: Plan | null;
}
interface Line { key: string; from: string; to: string; kind: string; label: string; points: Point[]; labelAt: Point | null }
interface Plan { width: number; height: number; boxes: Box[]; lines: Line[] }
/** The overlay of the drawing. Keys are those of `keyOf` and `edgeKey`. */
interface Overlay {
  nodes: Map<string, { status: string; count: number; about?: string }>;
  edges: Map<string, number>;               // how often an edge was taken
  coverage?: Map<string, string>;           // the coverage of an edge by tests
  selected: string | null;
}

// -- views ----------------------------------------------------------------------------------------------------------------

interface App { source: Source; head: Head }
interface Route {
  view: "threads" | "inbox" | "thread";
  ref: ThreadRef | null;
  tab: string;
  item: string;                             // the selection in the tab: a row, a field, an entry
  query: Record<string, string>;
}
interface View {
  element: HTMLElement;
  takes(route: Route): boolean;             // whether it can show the route
  show(route: Route): void;
  title(): string;
  close?(): void;
}
interface Panel {
  element: HTMLElement;
  show(route: Route): void;
  refresh(): void;                          // the thread has new entries
}
/** Shared data of the panels of a thread. */
interface Shared {
  app: App;
  ref: ThreadRef;
  recording: import("./recording.js").Recording;
  goRow(n: number, query?: Record<string, string>): void;
  rowAddress(n: number): string;
  writeCase(seq: number): Promise<void>;    // show a test case of the superstep that entry *seq* belongs to
  load: Load;
}
