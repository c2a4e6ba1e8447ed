/// The description of the web service (WSDL 1.1).
enum WSDL {
  /// - Parameter url: where the service is.
  static func document(url: String) -> String {
    """
    <?xml version="1.0" encoding="UTF-8"?>
    <wsdl:definitions xmlns:wsdl="http://schemas.xmlsoap.org/wsdl/" xmlns:soap="http://schemas.xmlsoap.org/wsdl/soap/" \
    xmlns:xsd="http://www.w3.org/2001/XMLSchema" xmlns:tns="\(SOAPRequest.namespace)" name="DeviceNotifications" \
    targetNamespace="\(SOAPRequest.namespace)">
      <wsdl:types>
        <xsd:schema targetNamespace="\(SOAPRequest.namespace)" elementFormDefault="qualified">
          <xsd:complexType name="Identification">
            <xsd:sequence>
              <xsd:element name="user" type="xsd:string"/>
              <xsd:element name="password" type="xsd:string"/>
              <xsd:element name="clientType" type="xsd:string" minOccurs="0"/>
            </xsd:sequence>
          </xsd:complexType>
          <xsd:complexType name="MessageReceived">
            <xsd:sequence>
              <xsd:element name="msgNo" type="xsd:long"/>
              <xsd:element name="createTime" type="xsd:dateTime"/>
              <xsd:element name="creatorName" type="xsd:string"/>
              <xsd:element name="initialId" type="xsd:string"/>
              <xsd:element name="msgType" type="xsd:string"/>
              <xsd:element name="originator" type="xsd:string" nillable="true"/>
              <xsd:element name="originatorText" type="xsd:string"/>
              <xsd:element name="subject" type="xsd:string"/>
              <xsd:element name="smsText" type="xsd:string"/>
            </xsd:sequence>
          </xsd:complexType>
          <xsd:complexType name="MessagesReceived">
            <xsd:sequence>
              <xsd:element name="MessageReceived" type="tns:MessageReceived" minOccurs="0" maxOccurs="unbounded"/>
            </xsd:sequence>
          </xsd:complexType>
          <xsd:element name="ReceivedMsgRequest">
            <xsd:complexType>
              <xsd:sequence>
                <xsd:element name="identification" type="tns:Identification"/>
                <xsd:element name="lastMsgNo" type="xsd:long"/>
              </xsd:sequence>
            </xsd:complexType>
          </xsd:element>
          <xsd:element name="ReceivedMsgResponse">
            <xsd:complexType>
              <xsd:sequence>
                <xsd:element name="resultCode" type="xsd:int"/>
                <xsd:element name="resultDescription" type="xsd:string"/>
                <xsd:element name="messagesReceived" type="tns:MessagesReceived"/>
              </xsd:sequence>
            </xsd:complexType>
          </xsd:element>
        </xsd:schema>
      </wsdl:types>
      <wsdl:message name="ReceivedMsgRequest">
        <wsdl:part name="parameters" element="tns:ReceivedMsgRequest"/>
      </wsdl:message>
      <wsdl:message name="ReceivedMsgResponse">
        <wsdl:part name="parameters" element="tns:ReceivedMsgResponse"/>
      </wsdl:message>
      <wsdl:portType name="DeviceNotifications">
        <wsdl:operation name="receivedMsg">
          <wsdl:input message="tns:ReceivedMsgRequest"/>
          <wsdl:output message="tns:ReceivedMsgResponse"/>
        </wsdl:operation>
      </wsdl:portType>
      <wsdl:binding name="DeviceNotifications" type="tns:DeviceNotifications">
        <soap:binding style="document" transport="http://schemas.xmlsoap.org/soap/http"/>
        <wsdl:operation name="receivedMsg">
          <soap:operation soapAction="" style="document"/>
          <wsdl:input><soap:body use="literal"/></wsdl:input>
          <wsdl:output><soap:body use="literal"/></wsdl:output>
        </wsdl:operation>
      </wsdl:binding>
      <wsdl:service name="DeviceNotifications">
        <wsdl:port name="DeviceNotifications" binding="tns:DeviceNotifications">
          <soap:address location="\(SOAPAnswer.escaped(url))"/>
        </wsdl:port>
      </wsdl:service>
    </wsdl:definitions>

    """
  }
}
