// The part of dagre 3.1.3 that the page uses.

export interface At { x: number; y: number; width: number; height: number; points?: { x: number; y: number }[] }
export namespace graphlib {
  class Graph {
    constructor(options: { multigraph?: boolean; compound?: boolean });
    setGraph(label: Record<string, unknown>): this;
    graph(): { width?: number; height?: number };
    setNode(name: string, label: Record<string, unknown>): this;
    setEdge(from: string, to: string, label: Record<string, unknown>, name: string): this;
    node(name: string): At;
    edge(from: string, to: string, name: string): At;
  }
}
export function layout(graph: graphlib.Graph, options?: Record<string, unknown>): void;
